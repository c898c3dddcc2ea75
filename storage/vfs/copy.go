package vfs

import "io"

// CopyRange writes n bytes of r from position off to w, through buf, which must not be empty. It returns the bytes that w
// took, less than n only with an error: io.ErrUnexpectedEOF when r ends before. It is what File.SendTo does where the kernel
// can't do the work.
func CopyRange(w io.Writer, r io.ReaderAt, off, n int64, buf []byte) (int64, error) {
	var done int64
	for done < n {
		chunk := buf[:min(int64(len(buf)), n-done)]
		got, readErr := r.ReadAt(chunk, off+done)
		put, err := w.Write(chunk[:got])
		done += int64(put)
		if err != nil {
			return done, err
		}
		if got < len(chunk) {
			return done, endOf(readErr)
		}
	}
	return done, nil
}

// endOf turns the end of a file into an unexpected one.
func endOf(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
