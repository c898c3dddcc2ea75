package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/kbroker/kbroker"
)

// The exit statuses.
const (
	exitOK      = 0
	exitFailed  = 1 // the broker couldn't start, or didn't close cleanly
	exitMisused = 2 // a flag or a setting is wrong
)

const examples = `  kbroker                                        127.0.0.1:9092, data in ./data
  kbroker --listen 127.0.0.1:0 --data /tmp/k     any free port; the line at the start names it
  kbroker --sync none                            for tests: no waiting for the disk
  kbroker --set num.partitions=3 --set log.retention.hours=24
  kbroker --config server.properties             an Apache Kafka configuration
  kbroker --set listeners=HOST://127.0.0.1:9092,NET://0.0.0.0:9093 \
          --set advertised.listeners=HOST://localhost:9092,NET://broker:9093 \
          --set listener.security.protocol.map=HOST:PLAINTEXT,NET:PLAINTEXT
                                                 for the host and for a container network`

// run is the command: it returns the exit status. The broker runs until ctx ends or a signal comes.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &command{stderr: stderr}
	root := c.cobra()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var misuse misuseError
	var status statusError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		if !errors.Is(err, errReported) {
			complain(stderr, err.Error())
		}
		return status.status
	case errors.As(err, &misuse):
		complain(stderr, fmt.Sprintf("%v\nkbroker --help shows the flags.", err))
		return exitMisused
	default:
		complain(stderr, err.Error())
		return exitFailed
	}
}

// complain says what went wrong.
func complain(w io.Writer, what string) {
	_, _ = fmt.Fprintf(w, "kbroker: %s\n", what) // there is nowhere else to say it
}

// misuseError is what the user can mend by other flags or settings.
type misuseError struct{ error }

func (e misuseError) Unwrap() error { return e.error }

// command holds the flags.
type command struct {
	stderr io.Writer

	listen []string
	data   string
	admin  string
	sync   string
	set    []string
	config string
}

// cobra describes the command line.
func (c *command) cobra() *cobra.Command {
	root := &cobra.Command{
		Use:           "kbroker",
		Short:         "A broker that Kafka clients take for Apache Kafka.",
		Long:          "kbroker is a broker that Kafka clients take for Apache Kafka: one process, one directory, nothing to configure.",
		Example:       examples,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return misuseError{fmt.Errorf("unexpected argument %q", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return c.serve(cmd.Context()) },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return misuseError{err} })
	root.SetVersionTemplate("kbroker {{.Version}}\n")
	f := root.Flags()
	f.SortFlags = false
	f.StringArrayVar(&c.listen, "listen", nil, "where clients connect, `HOST:PORT`; may be repeated; port 0 takes a free one (default 127.0.0.1:9092, and [::1]:9092 where it exists)")
	f.StringVar(&c.data, "data", "", "where everything is kept, a `DIR` (default ./data)")
	f.StringVar(&c.admin, "admin", "", "health, metrics and profiles over HTTP, `HOST:PORT` or off (default 127.0.0.1:9644)")
	f.StringVar(&c.sync, "sync", "", "when a write is acknowledged, a `MODE`: every-write once it is on the disk, interval or none once the operating system has it (default every-write)")
	f.StringArrayVar(&c.set, "set", nil, "any setting by Kafka's name, `KEY=VALUE`; may be repeated")
	f.StringVar(&c.config, "config", "", "a server.properties `FILE`; flags and KAFKA_* variables override it")
	root.AddCommand(storageCommand(), groupCommand(), txnCommand())
	return root
}

// version is what the build knows of itself.
func version() string {
	v := "devel"
	info, ok := debug.ReadBuildInfo()
	if ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		v = info.Main.Version
	}
	return fmt.Sprintf("%s (%s, %s/%s)", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// options turns the flags into the broker's options.
func (c *command) options() (kbroker.Options, error) {
	set := make(map[string]string, len(c.set))
	for _, s := range c.set {
		key, value, ok := strings.Cut(s, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return kbroker.Options{}, fmt.Errorf("--set %q isn't KEY=VALUE", s)
		}
		set[key] = value
	}
	switch c.sync {
	case "", "every-write", "interval", "none":
	default:
		return kbroker.Options{}, fmt.Errorf("--sync %q is none of every-write, interval, none", c.sync)
	}
	return kbroker.Options{
		DataDir: c.data, Listen: c.listen, Admin: c.admin, Sync: c.sync, Set: set, Environ: os.Environ(), PropertiesFile: c.config,
		Defaults: map[string]string{
			"listeners": "PLAINTEXT://localhost:9092", "log.dirs": "./data", "admin.listener": "127.0.0.1:9644",
		},
		Logger: c.logger(),
	}, nil
}

// serve runs a broker until ctx ends or a signal comes; a second signal ends the process at once.
func (c *command) serve(ctx context.Context) error {
	o, err := c.options()
	if err != nil {
		return misuseError{err}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	b, err := kbroker.Start(ctx, o)
	if err != nil {
		if kbroker.IsMisconfigured(err) {
			return misuseError{err}
		}
		return err
	}
	<-ctx.Done()
	stop() // from now on a signal has its usual effect
	return b.Close()
}

// logger writes what a person reads: one line at the start, one at the end, and warnings.
func (c *command) logger() *zap.Logger {
	e := zapcore.EncoderConfig{
		TimeKey: "time", LevelKey: "level", MessageKey: "message", StacktraceKey: "stack", LineEnding: "\n",
		EncodeTime: zapcore.TimeEncoderOfLayout("2006-01-02 15:04:05.000"), EncodeLevel: zapcore.CapitalLevelEncoder,
		EncodeDuration: zapcore.StringDurationEncoder, ConsoleSeparator: " ",
	}
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(e), zapcore.Lock(zapcore.AddSync(c.stderr)), zap.InfoLevel))
}
