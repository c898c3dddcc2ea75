package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kbroker/kbroker/storage/vfs"
	"github.com/kbroker/kbroker/storage/vfs/simdisk"
)

// behaviour is one thing that all filesystems do alike. The function gets an empty directory.
type behaviour struct {
	name string
	test func(place)
}

// place is an empty directory for a test.
type place struct {
	t    *testing.T
	disk vfs.FS
	dir  string
}

func TestFilesystemsBehaveAlike(t *testing.T) {
	t.Parallel()
	for _, b := range append(fileBehaviours(), append(nameBehaviours(), sendBehaviours()...)...) {
		t.Run("os/"+b.name, func(t *testing.T) {
			t.Parallel()
			b.test(place{t, vfs.OS(), t.TempDir()})
		})
		t.Run("simdisk/"+b.name, func(t *testing.T) {
			t.Parallel()
			disk := simdisk.New(1)
			if err := disk.MkdirAll("/dir", 0o750); err != nil {
				t.Fatal(err)
			}
			b.test(place{t, disk, "/dir"})
		})
		t.Run("overlay/"+b.name, func(t *testing.T) {
			t.Parallel()
			b.test(place{t, vfs.Overlay(vfs.OS()), t.TempDir()})
		})
	}
}

// must fails the test on an error and passes the value on.
func must[T any](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// put makes a file.
func put(t *testing.T, disk vfs.FS, name, content string) {
	t.Helper()
	f, err := disk.Create(name)
	must(t, f, err)
	must(t, 0, second(f.Write([]byte(content))))
	ok(t, f.Close())
}

func second(_ int, err error) error { return err }

// content reads a file.
func content(t *testing.T, disk vfs.FS, name string) string {
	t.Helper()
	f, err := disk.Open(name)
	must(t, f, err)
	b, err := io.ReadAll(f)
	ok(t, err)
	ok(t, f.Close())
	return string(b)
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func fileBehaviours() []behaviour {
	return []behaviour{
		{"Create empties a file", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			name := filepath.Join(dir, "a")
			put(t, disk, name, "first")
			put(t, disk, name, "2")
			expect(t, content(t, disk, name), "2")
		}},
		{"OpenReadWrite keeps what is there", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			name := filepath.Join(dir, "a")
			for range 2 {
				f, err := disk.OpenReadWrite(name)
				must(t, f, err)
				size, err := f.Size()
				must(t, size, err)
				must(t, 0, second(f.WriteAt([]byte("xy"), size)))
				ok(t, f.Sync())
				ok(t, f.SyncData())
				ok(t, f.Close())
			}
			expect(t, content(t, disk, name), "xyxy")
		}},
		{"Open only reads", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			name := filepath.Join(dir, "a")
			is(t, openError(disk.Open(name)), fs.ErrNotExist)
			put(t, disk, name, "abc")
			f, err := disk.Open(name)
			must(t, f, err)
			is(t, second(f.Write([]byte("x"))), syscall.EBADF)
			is(t, second(f.WriteAt([]byte("x"), 0)), syscall.EBADF)
			if f.Truncate(0) == nil {
				t.Error("truncated")
			}
			expect(t, f.Name(), name)
			ok(t, f.Close())
			expect(t, content(t, disk, name), "abc")
		}},
		{"a gap reads as zeros", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			f, err := disk.Create(filepath.Join(dir, "a"))
			must(t, f, err)
			must(t, 0, second(f.WriteAt([]byte("end"), 10_000)))
			must(t, 0, second(f.WriteAt([]byte("x"), 5_000)))
			b := make([]byte, 10_003)
			must(t, 0, second(f.ReadAt(b, 0)))
			want := make([]byte, 10_003)
			want[5_000] = 'x'
			copy(want[10_000:], "end")
			if !bytes.Equal(b, want) {
				t.Error("other bytes")
			}
			ok(t, f.Close())
		}},
		{"Truncate cuts and extends with zeros", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			name := filepath.Join(dir, "a")
			put(t, disk, name, "abcdef")
			f, err := disk.OpenReadWrite(name)
			must(t, f, err)
			ok(t, f.Truncate(2))
			ok(t, f.Truncate(4))
			info, err := f.Stat()
			if must(t, info, err).Size() != 4 || info.IsDir() || info.Name() != "a" {
				t.Errorf("%v", info)
			}
			ok(t, f.Close())
			expect(t, content(t, disk, name), "ab\x00\x00")
		}},
		{"ReadAt tells the end", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			name := filepath.Join(dir, "a")
			put(t, disk, name, "abc")
			f, err := disk.Open(name)
			must(t, f, err)
			b := make([]byte, 4)
			n, err := f.ReadAt(b, 1)
			is(t, err, io.EOF)
			expect(t, string(b[:n]), "bc")
			is(t, second(f.ReadAt(b, 99)), io.EOF)
			if second(f.ReadAt(b, -1)) == nil {
				t.Error("read before the beginning")
			}
			ok(t, f.Close())
		}},
		{"a closed file is closed", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			f, err := disk.Create(filepath.Join(dir, "a"))
			must(t, f, err)
			ok(t, f.Close())
			is(t, f.Close(), fs.ErrClosed)
			is(t, f.SyncData(), fs.ErrClosed)
			is(t, f.Sync(), fs.ErrClosed)
			is(t, second(f.WriteAt([]byte("x"), 0)), fs.ErrClosed)
			is(t, second(f.ReadAt(make([]byte, 1), 0)), fs.ErrClosed)
		}},
		{"an open file outlives its name", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			name := filepath.Join(dir, "a")
			put(t, disk, name, "abc")
			f, err := disk.Open(name)
			must(t, f, err)
			ok(t, disk.Remove(name))
			put(t, disk, name, "other")
			b := make([]byte, 3)
			must(t, 0, second(f.ReadAt(b, 0)))
			expect(t, string(b), "abc")
			ok(t, f.Close())
		}},
	}
}

func openError(_ vfs.File, err error) error { return err }

func nameBehaviours() []behaviour {
	return []behaviour{
		{"List is sorted", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			for _, name := range []string{"b", "a", "c"} {
				put(t, disk, filepath.Join(dir, name), "")
			}
			ok(t, disk.MkdirAll(filepath.Join(dir, "aa", "deep"), 0o750))
			names, err := disk.List(dir)
			expect(t, strings.Join(must(t, names, err), " "), "a aa b c")
			_, err = disk.List(filepath.Join(dir, "none"))
			is(t, err, fs.ErrNotExist)
			_, err = disk.List(filepath.Join(dir, "a"))
			is(t, err, syscall.ENOTDIR)
			ok(t, disk.SyncDir(dir))
			is(t, disk.SyncDir(filepath.Join(dir, "none")), fs.ErrNotExist)
		}},
		{"Remove takes files and empty directories", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			ok(t, disk.MkdirAll(filepath.Join(dir, "d"), 0o750))
			put(t, disk, filepath.Join(dir, "d", "a"), "")
			is(t, disk.Remove(filepath.Join(dir, "d")), syscall.ENOTEMPTY)
			ok(t, disk.Remove(filepath.Join(dir, "d", "a")))
			ok(t, disk.Remove(filepath.Join(dir, "d")))
			is(t, disk.Remove(filepath.Join(dir, "d")), fs.ErrNotExist)
		}},
		{"RemoveAll takes everything", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			ok(t, disk.MkdirAll(filepath.Join(dir, "d", "e"), 0o750))
			put(t, disk, filepath.Join(dir, "d", "a"), "")
			put(t, disk, filepath.Join(dir, "d", "e", "b"), "")
			put(t, disk, filepath.Join(dir, "f"), "")
			for _, name := range []string{"d", "f", "none"} {
				ok(t, disk.RemoveAll(filepath.Join(dir, name)))
			}
			names, err := disk.List(dir)
			expect(t, strings.Join(must(t, names, err), " "), "")
		}},
		{"Rename replaces a file", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
			put(t, disk, a, "new")
			put(t, disk, b, "old")
			ok(t, disk.Rename(a, b))
			expect(t, content(t, disk, b), "new")
			is(t, disk.Rename(a, b), fs.ErrNotExist)
			ok(t, disk.Rename(b, b))
		}},
		{"Rename moves directories with what is in them", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			d, e := filepath.Join(dir, "d"), filepath.Join(dir, "e")
			ok(t, disk.MkdirAll(d, 0o750))
			ok(t, disk.MkdirAll(e, 0o750))
			put(t, disk, filepath.Join(d, "a"), "abc")
			ok(t, disk.Rename(d, filepath.Join(e, "moved")))
			expect(t, content(t, disk, filepath.Join(e, "moved", "a")), "abc")
			is(t, disk.Rename(e, filepath.Join(e, "moved", "in")), syscall.EINVAL)
			put(t, disk, filepath.Join(dir, "f"), "")
			is(t, disk.Rename(e, filepath.Join(dir, "f")), syscall.ENOTDIR)
		}},
		{"Link gives a second name", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
			put(t, disk, a, "abc")
			ok(t, disk.Link(a, b))
			is(t, disk.Link(a, b), fs.ErrExist)
			is(t, disk.Link(filepath.Join(dir, "none"), b+"2"), fs.ErrNotExist)
			ok(t, disk.Remove(a))
			expect(t, content(t, disk, b), "abc")
		}},
		{"MkdirAll stops at a file", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			put(t, disk, filepath.Join(dir, "a"), "")
			is(t, disk.MkdirAll(filepath.Join(dir, "a", "b"), 0o750), syscall.ENOTDIR)
			ok(t, disk.MkdirAll(dir, 0o750))
			info, err := disk.Stat(dir)
			if !must(t, info, err).IsDir() {
				t.Error("not a directory")
			}
		}},
		{"Lock excludes others", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			name := filepath.Join(dir, "LOCK")
			first, err := disk.Lock(name)
			must(t, first, err)
			_, err = disk.Lock(name)
			is(t, err, vfs.ErrLocked)
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%v doesn't name the file", err)
			}
			ok(t, first.Close())
			again, err := disk.Lock(name)
			ok(t, must(t, again, err).Close())
		}},
		{"DiskUsage tells the space", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			u, err := disk.DiskUsage(dir)
			if must(t, u, err).TotalBytes == 0 || u.AvailableBytes > u.TotalBytes {
				t.Errorf("%+v", u)
			}
			_, err = disk.DiskUsage(filepath.Join(dir, "none"))
			is(t, err, fs.ErrNotExist)
		}},
	}
}

// tcpPair is a connection over the loopback device.
func tcpPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, l, err)
	defer l.Close() //nolint:errcheck // done with
	accepted := make(chan net.Conn, 1)
	go func() {
		c, acceptErr := l.Accept()
		if acceptErr == nil {
			accepted <- c
		}
		close(accepted)
	}()
	client, err = net.Dial("tcp", l.Addr().String())
	must(t, client, err)
	server = <-accepted
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

// pattern is bytes in which each position looks different.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return b
}

func sendBehaviours() []behaviour {
	return []behaviour{
		{"SendTo copies into a writer", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			data := pattern(200_000)
			put(t, disk, filepath.Join(dir, "a"), string(data))
			f, err := disk.Open(filepath.Join(dir, "a"))
			must(t, f, err)
			var got bytes.Buffer
			n, err := f.SendTo(&got, 1000, 150_000)
			if must(t, n, err) != 150_000 || !bytes.Equal(got.Bytes(), data[1000:151_000]) {
				t.Errorf("%d bytes", n)
			}
			n, err = f.SendTo(&got, 199_990, 20)
			is(t, err, io.ErrUnexpectedEOF)
			if n != 10 {
				t.Errorf("%d bytes at the end", n)
			}
			if n, err = f.SendTo(&got, 0, 0); n != 0 || err != nil {
				t.Errorf("nothing: %d, %v", n, err)
			}
			ok(t, f.Close())
		}},
		{"SendTo serves many connections from one file", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			data := pattern(1 << 20)
			put(t, disk, filepath.Join(dir, "a"), string(data))
			f, err := disk.Open(filepath.Join(dir, "a"))
			must(t, f, err)
			var wg sync.WaitGroup
			for i := range 4 {
				client, server := tcpPair(t)
				off := int64(i * 1000)
				n := int64(len(data)) - off
				wg.Go(func() {
					sent, err := f.SendTo(server, off, n)
					if err != nil || sent != n {
						t.Errorf("sent %d of %d, %v", sent, n, err)
					}
					_ = server.Close()
				})
				wg.Go(func() {
					got, err := io.ReadAll(client)
					if err != nil || !bytes.Equal(got, data[off:]) {
						t.Errorf("received %d bytes, %v", len(got), err)
					}
				})
			}
			wg.Wait()
			ok(t, f.Close())
		}},
		{"SendTo tells that the file ended", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			put(t, disk, filepath.Join(dir, "a"), "abc")
			f, err := disk.Open(filepath.Join(dir, "a"))
			must(t, f, err)
			_, server := tcpPair(t)
			n, err := f.SendTo(server, 1, 5)
			is(t, err, io.ErrUnexpectedEOF)
			if n != 2 {
				t.Errorf("%d bytes", n)
			}
			ok(t, f.Close())
		}},
		{"SendTo honours the write deadline", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			name := filepath.Join(dir, "a")
			put(t, disk, name, "")
			f, err := disk.OpenReadWrite(name)
			must(t, f, err)
			ok(t, f.Truncate(64<<20)) // more than any socket buffer
			_, server := tcpPair(t)
			ok(t, server.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
			n, err := f.SendTo(server, 0, 64<<20)
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() || n == 64<<20 {
				t.Errorf("sent %d, %v", n, err)
			}
			ok(t, f.Close())
		}},
		{"SendTo ends when the connection does", func(p place) {
			t, disk, dir := p.t, p.disk, p.dir
			put(t, disk, filepath.Join(dir, "a"), string(pattern(1<<20)))
			f, err := disk.Open(filepath.Join(dir, "a"))
			must(t, f, err)
			_, server := tcpPair(t)
			ok(t, server.Close())
			if n, err := f.SendTo(server, 0, 1<<20); err == nil || n != 0 {
				t.Errorf("sent %d, %v", n, err)
			}
			ok(t, f.Close())
		}},
	}
}
