package kbroker

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/kbroker/kbroker/meta/config"
	"github.com/kbroker/kbroker/protocol/clock"
	"github.com/kbroker/kbroker/storage/vfs"
)

// adminOff says in a setting that there is no admin listener.
const adminOff = "off"

// Options says how a broker is to be. The zero value is a broker on a free port of 127.0.0.1, with its data in a temporary
// directory that Close removes.
//
// Every key of docs/configuration.md can be given. Of several settings of one key the last in this order holds: Defaults,
// PropertiesFile, Environ, Set, and the other fields.
type Options struct {
	// DataDir is where everything is kept. It is made if need be, and locked while the broker runs.
	DataDir string
	// Listen are the addresses, HOST:PORT, on which clients connect. Port 0 takes a free one; the host localhost is the
	// loopback addresses of IPv4 and, where it exists, IPv6. An address that stands for all, such as 0.0.0.0, needs the
	// setting advertised.listeners.
	Listen []string
	// Admin is the address, HOST:PORT, for health, metrics and profiles over HTTP; "off" or "" for none. If it is taken the
	// broker starts without, and warns.
	Admin string
	// Sync says when a write is acknowledged: "every-write" once it is on the disk, "interval" or "none" once the operating
	// system has it, with a sync every second or when a segment is full.
	Sync string
	// NodeID is the broker's id; 0 leaves it to the setting node.id, which is 1 by default.
	NodeID int32

	// Set holds settings by Kafka's names.
	Set map[string]string
	// Environ is an environment (NAME=VALUE each), such as os.Environ gives; its KAFKA_* variables are settings. Variables
	// that name no setting are ignored.
	Environ []string
	// PropertiesFile is the path of a server.properties.
	PropertiesFile string
	// Defaults are settings for what isn't set otherwise.
	Defaults map[string]string

	// Logger takes one line at the start, one at the end, and warnings; nil is quiet.
	Logger *zap.Logger
	// Registerer takes the broker's metrics. If it is nil they are kept only when there is an admin listener.
	Registerer prometheus.Registerer

	clock clock.Clock // nil is the system's
	fs    vfs.FS      // nil is the system's
}

// configuration puts all settings together. It also says whether one of them names a data directory.
func (o *Options) configuration() (c *config.Broker, hasDataDir bool, err error) {
	base := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0"}
	file, err := o.properties()
	if err != nil {
		return nil, false, err
	}
	environment, _ := config.NewTable().ParseEnvironment(o.Environ)
	fields, err := o.fields()
	if err != nil {
		return nil, false, err
	}
	all := config.Merge(base, o.Defaults, file, environment, o.Set, fields)
	if len(o.Listen) > 1 {
		all["listener.security.protocol.map"] = withPlaintext(all["listener.security.protocol.map"], len(o.Listen))
	}
	c, err = config.Static(all)
	return c, all["log.dirs"] != "" || all["log.dir"] != "", err
}

// IsMisconfigured says whether Start failed for a setting or an option that is wrong in itself, as opposed to an address or a
// directory that isn't to be had.
func IsMisconfigured(err error) bool {
	var (
		value   *config.Error
		unknown *config.UnknownError
		rule    *config.RuleError
		option  *optionError
	)
	return errors.As(err, &value) || errors.As(err, &unknown) || errors.As(err, &rule) || errors.As(err, &option)
}

// optionError is an option that can't be.
type optionError struct{ text string }

func (e *optionError) Error() string { return e.text }

// properties reads the properties file, if there is one.
func (o *Options) properties() (map[string]string, error) {
	if o.PropertiesFile == "" {
		return nil, nil
	}
	f, err := os.Open(o.PropertiesFile)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	settings, err := config.ParseProperties(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", o.PropertiesFile, err)
	}
	return settings, nil
}

// fields turns the fields that have a setting's meaning into settings.
func (o *Options) fields() (map[string]string, error) {
	out := make(map[string]string)
	if o.DataDir != "" {
		out["log.dirs"] = o.DataDir
	}
	if o.Sync != "" {
		out["log.sync"] = o.Sync
	}
	if o.NodeID != 0 {
		out["node.id"] = strconv.Itoa(int(o.NodeID))
	}
	switch o.Admin {
	case "":
	case adminOff:
		out["admin.listener"] = ""
	default:
		out["admin.listener"] = o.Admin
	}
	var err error
	if len(o.Listen) > 0 {
		out["listeners"], err = listenersSetting(o.Listen)
	}
	return out, err
}

// listenersSetting writes addresses as Kafka's listeners setting.
func listenersSetting(addresses []string) (string, error) {
	entries := make([]string, len(addresses))
	for i, a := range addresses {
		host, port, err := net.SplitHostPort(a)
		if err != nil {
			return "", &optionError{fmt.Sprintf("listen address %q: write HOST:PORT, such as 127.0.0.1:9092 (%v)", a, err)}
		}
		entries[i] = listenerName(i) + "://" + net.JoinHostPort(host, port)
	}
	return strings.Join(entries, ","), nil
}

// listenerName is the name of the listener of the i-th address.
func listenerName(i int) string {
	if i == 0 {
		return string(config.Plaintext)
	}
	return string(config.Plaintext) + "_" + strconv.Itoa(i+1)
}

// withPlaintext adds the names of further listeners to the map of protocols.
func withPlaintext(protocols string, listeners int) string {
	if protocols == "" {
		protocols = "PLAINTEXT:PLAINTEXT"
	}
	for i := 1; i < listeners; i++ {
		protocols += "," + listenerName(i) + ":PLAINTEXT"
	}
	return protocols
}

// with copies the options with further defaults below those given.
func (o Options) with(defaults map[string]string) Options {
	all := maps.Clone(defaults)
	maps.Copy(all, o.Defaults)
	o.Defaults = all
	return o
}
