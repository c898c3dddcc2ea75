package simdisk

// pageSize is the unit of sharing, and what a sync writes back at least, as in a page cache.
const pageSize = 4096

// page is a piece of a file. Once frozen it is never written again and may be shared by any number of contents, also of
// different disks; a content that wants to change it takes a copy.
type page struct {
	frozen bool
	bytes  [pageSize]byte
}

// content is the bytes of a file. A nil page reads as zeros; bytes of a page beyond the size are zero.
type content struct {
	pages []*page
	size  int64
}

// readAt copies bytes from off on and returns how many there were.
func (c *content) readAt(b []byte, off int64) int {
	if off >= c.size {
		return 0
	}
	b = b[:min(int64(len(b)), c.size-off)]
	for done := 0; done < len(b); {
		index, within := int((off+int64(done))/pageSize), int((off+int64(done))%pageSize)
		n := min(pageSize-within, len(b)-done)
		if p := c.page(index); p != nil {
			copy(b[done:done+n], p.bytes[within:])
		} else {
			clear(b[done : done+n])
		}
		done += n
	}
	return len(b)
}

// writeAt puts bytes at off and extends the content if need be.
func (c *content) writeAt(b []byte, off int64) {
	for done := 0; done < len(b); {
		index, within := int((off+int64(done))/pageSize), int((off+int64(done))%pageSize)
		done += copy(c.own(index).bytes[within:], b[done:])
	}
	c.size = max(c.size, off+int64(len(b)))
}

// truncate sets the size; bytes that are added are zeros.
func (c *content) truncate(size int64) {
	if size < c.size {
		count := int((size + pageSize - 1) / pageSize)
		if count < len(c.pages) {
			clear(c.pages[count:])
			c.pages = c.pages[:count]
		}
		if tail := int(size % pageSize); tail > 0 && c.page(count-1) != nil {
			clear(c.own(count - 1).bytes[tail:])
		}
	}
	c.size = size
}

func (c *content) page(index int) *page {
	if index >= len(c.pages) {
		return nil
	}
	return c.pages[index]
}

// own returns a page that may be written.
func (c *content) own(index int) *page {
	for len(c.pages) <= index {
		c.pages = append(c.pages, nil)
	}
	p := c.pages[index]
	if p == nil || p.frozen {
		fresh := new(page)
		if p != nil {
			fresh.bytes = p.bytes
		}
		c.pages[index] = fresh
		return fresh
	}
	return p
}

// freeze makes a page shareable and returns it.
func (c *content) freeze(index int) *page {
	p := c.page(index)
	if p != nil && !p.frozen {
		p.frozen = true
	}
	return p
}

// share returns a content with the same bytes. The two go their own ways from here.
func (c *content) share() content {
	for i := range c.pages {
		c.freeze(i)
	}
	return content{pages: append([]*page(nil), c.pages...), size: c.size}
}

// adopt takes over the pages that hold [off, off+n) of another content.
func (c *content) adopt(from *content, off, n int64) {
	for i := int(off / pageSize); int64(i)*pageSize < off+n; i++ {
		p := from.freeze(i)
		if p == nil && i >= len(c.pages) {
			continue
		}
		for len(c.pages) <= i {
			c.pages = append(c.pages, nil)
		}
		c.pages[i] = p
	}
}
