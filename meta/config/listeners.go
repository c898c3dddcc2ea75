package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Protocol is how a listener talks: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL".
type Protocol string

// The protocols of listeners.
const (
	Plaintext     Protocol = "PLAINTEXT"
	SSL           Protocol = "SSL"
	SASLPlaintext Protocol = "SASL_PLAINTEXT"
	SASLSSL       Protocol = "SASL_SSL"
)

// Listener is one address the broker listens on, and the address it tells clients who came in by it.
type Listener struct {
	Name     string // upper case, unique
	Host     string // "" binds all addresses
	Port     int    // 0 takes a free port
	Protocol Protocol
	// AdvertisedHost and AdvertisedPort are what Metadata answers. The port is 0 when it is that of the listener, which is
	// known once it is bound. AdvertisedHost is never empty.
	AdvertisedHost string
	AdvertisedPort int
}

// endpoint is NAME://HOST:PORT taken apart.
type endpoint struct {
	name, host string
	port       int
}

// ParseListeners reads Kafka's three listener settings: listeners and advertised (comma-separated NAME://HOST:PORT) and
// the protocol map (NAME:PROTOCOL). A name that isn't in the map may be a protocol's own. An empty advertised list
// means that every listener advertises itself; a listener that isn't in a list that isn't empty does so too. Errors name
// the setting, the entry and what is wrong.
func ParseListeners(listeners, advertised, protocolMap string) ([]Listener, error) {
	bound, err := parseEndpoints("listeners", listeners)
	if err != nil {
		return nil, err
	}
	if len(bound) == 0 {
		return nil, &Error{Key: "listeners", Value: listeners, Reason: "There must be at least one listener"}
	}
	if err = checkPorts(bound, listeners); err != nil {
		return nil, err
	}
	told, err := parseEndpoints("advertised.listeners", advertised)
	if err != nil {
		return nil, err
	}
	protocols, err := parseProtocolMap(protocolMap)
	if err != nil {
		return nil, err
	}
	if err = checkAdvertised(told, bound, advertised); err != nil {
		return nil, err
	}
	out := make([]Listener, 0, len(bound))
	for _, e := range bound {
		l, err := resolveListener(e, told, protocols)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// resolveListener puts what the three settings say of one listener together.
func resolveListener(e endpoint, told []endpoint, protocols map[string]Protocol) (Listener, error) {
	l := Listener{Name: e.name, Host: e.host, Port: e.port, AdvertisedHost: e.host}
	p, ok := protocols[e.name]
	if !ok {
		if p, ok = protocolNamed(e.name); !ok {
			return l, &Error{
				Key: "listener.security.protocol.map", Value: e.name,
				Reason: fmt.Sprintf("No security protocol is defined for listener %s; add %s:PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", e.name, e.name),
			}
		}
	}
	l.Protocol = p
	for _, t := range told {
		if t.name == e.name {
			l.AdvertisedHost, l.AdvertisedPort = t.host, t.port
		}
	}
	if unroutable(l.AdvertisedHost) {
		return l, &Error{
			Key: "advertised.listeners", Value: fmt.Sprintf("%s://%s:%d", e.name, l.AdvertisedHost, e.port),
			Reason: "Clients can't connect to an address that stands for all; set advertised.listeners to " + e.name +
				"://HOST:PORT with a host that they reach",
		}
	}
	return l, nil
}

// unroutable says whether a host is no address to connect to: empty, 0.0.0.0 or ::.
func unroutable(host string) bool {
	if host == "" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsUnspecified()
}

// checkAdvertised refuses advertised listeners that nobody listens on.
func checkAdvertised(told, bound []endpoint, value string) error {
	for _, t := range told {
		known := false
		for _, b := range bound {
			known = known || b.name == t.name
		}
		if !known {
			return &Error{
				Key: "advertised.listeners", Value: value,
				Reason: fmt.Sprintf("Listener %s isn't in listeners", t.name),
			}
		}
	}
	return nil
}

// checkPorts refuses two listeners on one port, unless one is an IPv4 and the other an IPv6 address.
func checkPorts(all []endpoint, value string) error {
	for i, a := range all {
		for _, b := range all[:i] {
			if a.port == 0 || a.port != b.port || twoFamilies(a.host, b.host) {
				continue
			}
			return &Error{
				Key: "listeners", Value: value,
				Reason: fmt.Sprintf("Each listener must have a port of its own, but %s and %s both have %d", b.name, a.name, a.port),
			}
		}
	}
	return nil
}

// twoFamilies says whether one host is an IPv4 and the other an IPv6 address.
func twoFamilies(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	return errX == nil && errY == nil && x.Is4() != y.Is4()
}

// parseEndpoints reads a list of NAME://HOST:PORT.
func parseEndpoints(key, value string) ([]endpoint, error) {
	var out []endpoint
	for _, item := range SplitList(value) {
		e, reason := parseEndpoint(item)
		if reason != "" {
			return nil, &Error{Key: key, Value: value, Reason: reason}
		}
		for _, o := range out {
			if o.name == e.name {
				return nil, &Error{Key: key, Value: value, Reason: fmt.Sprintf("Each listener must have a name of its own, but %s is there twice", e.name)}
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// parseEndpoint takes one NAME://HOST:PORT apart; the host may be empty, or an IPv6 address in brackets.
func parseEndpoint(item string) (e endpoint, reason string) {
	name, address, ok := strings.Cut(item, "://")
	if !ok || name == "" {
		return e, fmt.Sprintf("Unable to parse %q to a listener; write NAME://HOST:PORT, such as PLAINTEXT://localhost:9092", item)
	}
	colon := strings.LastIndexByte(address, ':')
	if colon < 0 {
		return e, fmt.Sprintf("Listener %q has no port; write NAME://HOST:PORT", item)
	}
	host, text := address[:colon], address[colon+1:]
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return e, fmt.Sprintf("Listener %q has the port %q, which is not a number from 0 to 65535", item, text)
	}
	if host, ok = unbracket(host); !ok {
		return e, fmt.Sprintf("Listener %q has a malformed host; write an IPv6 address as [::1]", item)
	}
	return endpoint{name: strings.ToUpper(name), host: host, port: int(port)}, ""
}

// unbracket takes the brackets off an IPv6 address and says whether the host is well-formed.
func unbracket(host string) (string, bool) {
	inner, opened := strings.CutPrefix(host, "[")
	if !opened {
		return host, !strings.ContainsAny(host, ":/[] \t")
	}
	inner, closed := strings.CutSuffix(inner, "]")
	a, err := netip.ParseAddr(inner)
	return inner, closed && err == nil && a.Is6()
}

// parseProtocolMap reads NAME:PROTOCOL,... with names and protocols in any case.
func parseProtocolMap(value string) (map[string]Protocol, error) {
	out := make(map[string]Protocol)
	for _, item := range SplitList(value) {
		name, protocol, ok := strings.Cut(item, ":")
		if !ok || name == "" {
			return nil, &Error{Key: "listener.security.protocol.map", Value: value, Reason: fmt.Sprintf("Unable to parse %q; write NAME:PROTOCOL", item)}
		}
		p, ok := protocolNamed(protocol)
		if !ok {
			return nil, &Error{
				Key: "listener.security.protocol.map", Value: value,
				Reason: fmt.Sprintf("No security protocol is called %q; there are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL", protocol),
			}
		}
		name = strings.ToUpper(strings.TrimSpace(name))
		if _, twice := out[name]; twice {
			return nil, &Error{Key: "listener.security.protocol.map", Value: value, Reason: fmt.Sprintf("Listener %s is there twice", name)}
		}
		out[name] = p
	}
	return out, nil
}

// protocolNamed finds a protocol by its name in any case.
func protocolNamed(name string) (Protocol, bool) {
	switch p := Protocol(strings.ToUpper(strings.TrimSpace(name))); p {
	case Plaintext, SSL, SASLPlaintext, SASLSSL:
		return p, true
	default:
		return "", false
	}
}

// withoutListeners takes the listeners of the given names out of a list of NAME://HOST:PORT.
func withoutListeners(value string, names []string) string {
	var kept []string
	for _, item := range SplitList(value) {
		name, _, _ := strings.Cut(item, "://")
		if !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			kept = append(kept, item)
		}
	}
	return strings.Join(kept, ",")
}
