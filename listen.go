package kbroker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/kbroker/kbroker/meta/config"
)

// localhost is the host that binds the loopback addresses of both families.
const localhost = "localhost"

// bound is a listener with its sockets, of which localhost may have two.
type bound struct {
	config.Listener
	sockets []net.Listener
}

// bindAll opens the sockets of all listeners, or none.
func bindAll(ctx context.Context, listeners []config.Listener, advertised bool) ([]*bound, error) {
	var out []*bound
	for _, l := range listeners {
		if l.Protocol != config.Plaintext {
			closeAll(out)
			return nil, fmt.Errorf("listener %s: the protocol %s isn't supported; use PLAINTEXT", l.Name, l.Protocol)
		}
		b, err := bind(ctx, l)
		if err != nil {
			closeAll(out)
			return nil, err
		}
		if l.AdvertisedHost == localhost && !advertised {
			// Clients that try ::1 first, or only, are let in there too, but what they are told must be reachable for all.
			b.AdvertisedHost = "127.0.0.1"
		}
		out = append(out, b)
	}
	return out, nil
}

// bind opens the sockets of one listener and notes the ports that were taken.
func bind(ctx context.Context, l config.Listener) (*bound, error) {
	host := l.Host
	if host == localhost {
		host = "127.0.0.1"
	}
	socket, err := listenOn(ctx, host, l.Port)
	if err != nil {
		return nil, err
	}
	b := &bound{Listener: l, sockets: []net.Listener{socket}}
	free := l.Port == 0
	if a, ok := socket.Addr().(*net.TCPAddr); ok {
		b.Port = a.Port
	}
	if b.AdvertisedPort == 0 {
		b.AdvertisedPort = b.Port
	}
	if l.Host != localhost {
		return b, nil
	}
	second, err := listenOn(ctx, "::1", b.Port)
	switch {
	case err == nil:
		b.sockets = append(b.sockets, second)
	case errors.Is(err, syscall.EADDRINUSE) && !free:
		closeAll([]*bound{b})
		return nil, err
	default: // there is no ::1 here, or not for that port
	}
	return b, nil
}

// listenOn opens one socket. Its errors say what can be done.
func listenOn(ctx context.Context, host string, port int) (net.Listener, error) {
	address := net.JoinHostPort(host, strconv.Itoa(port))
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: the port is taken by another process (%w); stop that one, or choose another address with --listen HOST:PORT (port 0 takes a free one)", address, err)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listen on %s: not allowed (%w); choose a port above 1023 with --listen HOST:PORT", address, err)
	default:
		return nil, fmt.Errorf("listen on %s: %w; choose an address of this machine with --listen HOST:PORT", address, err)
	}
}

// closeAll closes sockets that nobody has been served on.
func closeAll(all []*bound) {
	for _, b := range all {
		for _, s := range b.sockets {
			_ = s.Close() // nothing was accepted
		}
	}
}

// address is what clients of the listener are told.
func (b *bound) address() string {
	return net.JoinHostPort(b.AdvertisedHost, strconv.Itoa(b.AdvertisedPort))
}

// boundSetting is the listeners setting with the ports that were taken.
func boundSetting(all []*bound) string {
	entries := make([]string, len(all))
	for i, b := range all {
		entries[i] = b.Name + "://" + net.JoinHostPort(b.Host, strconv.Itoa(b.Port))
	}
	return strings.Join(entries, ",")
}

// advertisedSetting is the advertised.listeners setting with what clients are told.
func advertisedSetting(all []*bound) string {
	entries := make([]string, len(all))
	for i, b := range all {
		entries[i] = b.Name + "://" + b.address()
	}
	return strings.Join(entries, ",")
}
