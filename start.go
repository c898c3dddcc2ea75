package kbroker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/kbroker/kbroker/handlers"
	"github.com/kbroker/kbroker/handlers/admin"
	"github.com/kbroker/kbroker/handlers/group"
	"github.com/kbroker/kbroker/handlers/server"
	"github.com/kbroker/kbroker/meta"
	"github.com/kbroker/kbroker/meta/config"
	"github.com/kbroker/kbroker/storage"
	"github.com/kbroker/kbroker/storage/vfs"
)

const (
	dirPerm  = 0o755
	lockName = "LOCK" // in the data directory

	// frameShare is the part of request.memory.bytes, one in so many, that is for frames being received; the rest is for
	// what is made of them.
	frameShare = 4
)

// Start starts a broker. When it returns, clients are served. The context is for the start alone: if it ends before, the
// start is given up.
func Start(ctx context.Context, o Options) (*Broker, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	b := &Broker{clock: o.clock, fs: o.fs, log: o.Logger}
	if b.clock == nil {
		b.clock = systemClock{}
	}
	if b.fs == nil {
		b.fs = vfs.OS()
	}
	if b.log == nil {
		b.log = zap.NewNop()
	}
	b.requestLog = sparing(b.log)
	if o.Registerer != nil {
		b.metrics.targets = append(b.metrics.targets, o.Registerer)
	}
	b.stop.push(func(context.Context) error {
		b.metrics.release()
		return nil
	})
	if err := b.start(ctx, &o); err != nil {
		return nil, errors.Join(err, b.stop.unwind(ctx))
	}
	return b, nil
}

// start goes from the outside in: who can't have the directory or the address finds out before anything is opened, and
// clients that come early wait in the sockets' queues until the last step serves them.
func (b *Broker) start(ctx context.Context, o *Options) error {
	began := b.clock.Now()
	c, hasDataDir, err := o.configuration()
	if err != nil {
		return err
	}
	b.config = c
	steps := []func(context.Context) error{
		b.bind,
		b.explained(func(context.Context) error { return b.lockDataDir(hasDataDir) }),
		b.openAdmin,
		b.explained(b.openMeta),
		b.explained(b.openLogs),
		b.serve,
	}
	for _, step := range steps {
		if err = ctx.Err(); err == nil {
			err = step(ctx)
		}
		if err != nil {
			return err
		}
	}
	b.ready.Store(true)
	b.log.Info(fmt.Sprintf("kbroker is ready: clients connect to %s, data in %s, cluster %s, sync %s",
		join(b.Addrs()), b.dir, b.ClusterID(), c.String("log.sync")),
		zap.Duration("took", b.clock.Now().Sub(began)))
	return nil
}

// bind opens the sockets.
func (b *Broker) bind(ctx context.Context) error {
	listeners, err := b.config.Listeners()
	if err != nil {
		return err
	}
	b.listeners, err = bindAll(ctx, listeners, !b.config.Null("advertised.listeners"))
	if err != nil {
		return err
	}
	b.stop.push(func(context.Context) error {
		closeAll(b.listeners) // what the server has closed already is closed
		return nil
	})
	return errors.Join(b.config.Override("listeners", boundSetting(b.listeners)),
		b.config.Override("advertised.listeners", advertisedSetting(b.listeners)))
}

// lockDataDir makes the data directory and takes it for this broker alone.
func (b *Broker) lockDataDir(given bool) error {
	var err error
	if given {
		b.dir = b.config.DataDir()
		err = makeDataDir(b.fs, b.dir)
	} else {
		b.dir, err = os.MkdirTemp("", "kbroker-")
		b.temporary = true
	}
	if err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	if b.temporary {
		b.stop.push(func(context.Context) error { return os.RemoveAll(b.dir) })
	}
	if err = b.config.Override("log.dirs", b.dir); err != nil {
		return err
	}
	lock, err := b.fs.Lock(filepath.Join(b.dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("the data directory %s is in use by another broker; stop that one, or choose another directory with --data DIR: %w",
			absolute(b.dir), err)
	}
	if err != nil {
		return fmt.Errorf("lock the data directory: %w", err)
	}
	b.stop.push(func(context.Context) error { return lock.Close() })
	return nil
}

// absolute is a path that means the same in any working directory.
func absolute(dir string) string {
	if a, err := filepath.Abs(dir); err == nil {
		return a
	}
	return dir
}

// openAdmin starts the admin listener, if there is to be one. A port that is taken is no reason not to serve clients.
func (b *Broker) openAdmin(ctx context.Context) error {
	address := b.config.String("admin.listener")
	if address == "" || address == adminOff {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		b.log.Warn("no admin listener: health, metrics and profiles are not served; choose another address with --admin HOST:PORT",
			zap.String("address", address), zap.Error(err))
		return nil
	}
	b.admin = l.Addr()
	s := admin.Serve(l, admin.Options{Gatherer: b.collect(), Ready: b.ready.Load, Logger: b.log})
	b.stop.push(s.Shutdown)
	return nil
}

// collect finds or makes a registry for the admin listener to show.
func (b *Broker) collect() prometheus.Gatherer {
	if len(b.metrics.targets) > 0 {
		if g, ok := b.metrics.targets[0].(prometheus.Gatherer); ok {
			return g
		}
	}
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	b.metrics.targets = append(b.metrics.targets, r)
	return r
}

// registerer takes metrics; nil when nobody wants them.
func (b *Broker) registerer() prometheus.Registerer {
	if len(b.metrics.targets) == 0 {
		return nil
	}
	return &b.metrics
}

// openMeta opens the metadata store and takes over the settings kept in it.
func (b *Broker) openMeta(context.Context) error {
	dir, topics := filepath.Join(b.dir, "meta"), filepath.Join(b.dir, "topics")
	logs, err := vfs.ListDirs(b.fs, topics)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for logs: %w", err)
	}
	s, err := meta.Open(b.fs, dir, meta.Options{
		Clock: b.clock, Logger: b.log, NodeID: int32(b.config.Int("node.id")), Durability: b.durability(), Registerer: b.registerer(),
		// A new store knows no topics, and the directories of unknown topics are removed.
		Existing: len(logs) > 0,
	})
	if errors.Is(err, meta.ErrMissing) {
		return fmt.Errorf("%s holds the logs of %d topics: put the metadata in %s back; or, to start without, move the logs elsewhere "+
			"(`kbroker storage dump --records` shows what is in them): %w",
			absolute(topics), len(logs), absolute(dir), err)
	}
	if err != nil {
		return err
	}
	b.meta = s
	b.stop.push(func(context.Context) error { return s.Close() })
	return b.loadSettings()
}

// durability is that of committed offsets and groups. It follows log.sync: whoever may lose records of a second may lose
// the offsets committed in it.
func (b *Broker) durability() meta.Durability {
	switch b.config.String("log.sync") {
	case "interval":
		return meta.SyncInterval(b.config.Duration("log.sync.interval.ms"))
	case "none":
		return meta.SyncNever()
	default:
		return meta.SyncAlways()
	}
}

// keepFree is what records leave free for metadata: its logs and tables of a few MiB, and what a start writes of them.
const keepFree = 32 << 20

// openLogs opens the logs of all topics. They recover side by side, in the background: a partition answers as soon as it is
// ready.
func (b *Broker) openLogs(context.Context) error {
	s, err := storage.OpenSet(b.fs, b.dir, storage.SetOptions{
		Clock: b.clock, Logger: b.log, Registerer: b.registerer(), Epoch: b.meta.Epoch(),
		LogStart: func(p storage.Partition) int64 { return b.meta.LogStart(p.ID, p.Number) },
		SetLogStart: func(p storage.Partition, start int64) error {
			return b.meta.SetLogStart(p.ID, p.Number, start)
		},
		Maintenance:  func() storage.Maintenance { return maintenanceOf(b.config) },
		MaxOpenFiles: segmentFiles(openFileLimit()), KeepFree: keepFree,
	})
	if err != nil {
		return err
	}
	b.logs = s
	// Closing makes a clean end of every log, so that the next start has nothing to recover; no deadline stops it halfway.
	b.stop.push(func(context.Context) error {
		closeErr := s.Close(context.Background())
		if closeErr != nil {
			b.meta.KeepUnclean()
		}
		return closeErr
	})
	topics := b.meta.Topics()
	err = s.Sweep(func(topic string, partition int32, id storage.TopicID) bool {
		t := topics.WithID(id)
		return t != nil && t.Name == topic && partition < t.Partitions
	})
	if err != nil {
		return err
	}
	for _, t := range topics.All() {
		c := b.config.Storage(b.config.Topic(t.Configs))
		for p := range t.Partitions {
			if _, err = s.Start(storage.Partition{Topic: t.Name, ID: t.ID, Number: p}, c, t.EpochBase); err != nil {
				return fmt.Errorf("open the log of %s-%d: %w", t.Name, p, err)
			}
		}
	}
	return nil
}

// serve puts coordinator, handlers and server together and lets clients in.
func (b *Broker) serve(context.Context) error {
	lifecycle, end := context.WithCancel(context.Background())
	b.lifecycle = lifecycle
	b.stop.push(func(context.Context) error {
		end()
		return nil
	})
	groups, err := group.New(group.Options{
		Store: b.meta, Clock: b.clock, Logger: b.requestLog, Config: newSettings(b.config, groupSettings).get, Topics: b.meta.Topics,
		Registerer: b.registerer(), GroupConfig: groupOverrides(b.config), Internal: handlers.InternalTopics(b.meta.ClusterID(), b.config),
	})
	if err != nil {
		return err
	}
	b.stop.push(func(context.Context) error {
		groups.Close()
		return nil
	})
	transactions, err := b.openTransactions(groups)
	if err != nil {
		return err
	}
	h, err := handlers.New(b.deps(groups, transactions))
	if err != nil {
		return err
	}
	b.server, err = server.New(b.serverOptions(h))
	if err != nil {
		return err
	}
	b.stop.push(func(ctx context.Context) error {
		groups.Drain()
		return b.server.Shutdown(ctx)
	})
	for _, l := range b.listeners {
		for _, socket := range l.sockets {
			b.server.Serve(l.Name, socket)
		}
	}
	return nil
}

// sparing makes a logger for what requests run into: clients repeat them, and would fill the log, and the disk that it is on, with
// what it has said already. Of lines with the same message there are at most five in ten seconds.
func sparing(log *zap.Logger) *zap.Logger {
	const lines, pause = 5, 10 * time.Second
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, pause, lines, 0)
	}))
}

// deps is what the handlers stand on.
func (b *Broker) deps(groups *group.Coordinator, transactions handlers.Transactions) handlers.Deps {
	d := handlers.Deps{
		NodeID: int32(b.config.Int("node.id")), Meta: b.meta, Logs: logs{b.logs}, Groups: groups, Transactions: transactions,
		Config: b.config, ConfigStore: b.meta, Features: b.features,
		DataDir: absolute(b.dir), DiskSpace: b.diskSpace, Clock: b.clock, Logger: b.requestLog, Registerer: b.registerer(),
		Endpoints: b.endpoint, Lifecycle: b.lifecycle,
	}
	if rack := b.config.String("broker.rack"); !b.config.Null("broker.rack") {
		d.Rack = &rack
	}
	return d
}

// endpoint is where clients of a listener are told to connect.
func (b *Broker) endpoint(listener string) (host string, port int32, ok bool) {
	for _, l := range b.listeners {
		if l.Name == listener {
			return l.AdvertisedHost, int32(l.AdvertisedPort), true
		}
	}
	return "", 0, false
}

// diskSpace tells the size of the data directory's filesystem.
func (b *Broker) diskSpace() (total, usable int64, err error) {
	u, err := b.fs.DiskUsage(b.dir)
	return int64(min(u.TotalBytes, math.MaxInt64)), int64(min(u.AvailableBytes, math.MaxInt64)), err
}

// serverOptions are the bounds on connections as configured.
func (b *Broker) serverOptions(d server.Dispatcher) server.Options {
	memory := b.config.Int64("request.memory.bytes")
	return server.Options{
		Dispatcher: d, Clock: b.clock, Logger: b.log, Registerer: b.registerer(),
		MaxRequestBytes:    b.config.Int("socket.request.max.bytes"),
		MaxFrameBytes:      max(memory/frameShare, 1),
		MaxDecodeBytes:     max(memory-memory/frameShare, 1),
		MaxConnDecodeBytes: b.config.Int64("connection.request.memory.bytes"),
		MaxIdle:            b.config.Duration("connections.max.idle.ms"),
		Limits:             b.connectionLimits,
	}
}

// connectionLimits are the bounds on connections as they are now.
func (b *Broker) connectionLimits(a netip.Addr) (all, ofAddress int) {
	all, ofAddress = b.config.Int("max.connections"), b.config.Int("max.connections.per.ip")
	for _, o := range config.SplitList(b.config.String("max.connections.per.ip.overrides")) {
		colon := strings.LastIndexByte(o, ':')
		if colon < 0 {
			continue
		}
		host, err := netip.ParseAddr(strings.Trim(o[:colon], "[]"))
		n, bad := strconv.Atoi(o[colon+1:])
		if err == nil && bad == nil && host.Unmap() == a {
			ofAddress = n
		}
	}
	return all, ofAddress
}
