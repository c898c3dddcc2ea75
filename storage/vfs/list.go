package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// ListDirs is List without what isn't a directory. What goes away meanwhile is left out.
func ListDirs(files FS, name string) ([]string, error) {
	names, err := files.List(name)
	if err != nil {
		return nil, err
	}
	dirs := make([]string, 0, len(names))
	for _, n := range names {
		info, err := files.Stat(filepath.Join(name, n))
		switch {
		case err == nil && info.IsDir():
			dirs = append(dirs, n)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("list directories: %w", err)
		}
	}
	return dirs, nil
}
