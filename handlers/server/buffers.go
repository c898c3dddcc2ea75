package server

import (
	"math/bits"
	"sync"
)

const (
	// baseBytes is what an active connection reads into: many small requests, or one of usual size, at once.
	baseBytes = 64 << 10
	// minClassBits and maxClassBits are the smallest and the largest size class, 512 bytes and 4 MiB. Larger buffers are not
	// kept.
	minClassBits = 9
	maxClassBits = 22
	// unpooled is the class of a buffer that isn't kept.
	unpooled = -1
)

// buffer is memory on loan from a bufferPool. All of b may be used.
type buffer struct {
	b     []byte
	class int
}

// bufferPool lends buffers by size class, which are powers of two. Concurrent calls are allowed. What isn't used for a while
// goes to the garbage collector.
type bufferPool struct {
	classes [maxClassBits - minClassBits + 1]sync.Pool
}

// get lends a buffer of at least size bytes. Its contents are arbitrary.
func (p *bufferPool) get(size int) *buffer {
	class := classOf(size)
	if class == unpooled {
		return &buffer{b: make([]byte, size), class: unpooled}
	}
	if b, ok := p.classes[class].Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, 1<<(class+minClassBits)), class: class}
}

// put takes a buffer back.
func (p *bufferPool) put(b *buffer) {
	if b.class != unpooled {
		p.classes[b.class].Put(b)
	}
}

// classOf is the smallest class with size bytes, or unpooled.
func classOf(size int) int {
	n := max(bits.Len(uint(max(size, 1)-1)), minClassBits)
	if n > maxClassBits {
		return unpooled
	}
	return n - minClassBits
}

// classBytes is how much memory a buffer for size bytes takes.
func classBytes(size int) int {
	if class := classOf(size); class != unpooled {
		return 1 << (class + minClassBits)
	}
	return size
}
