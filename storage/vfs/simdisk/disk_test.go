package simdisk

import (
	"math/rand/v2"
	"testing"
)

func TestSyncedBytesSurviveEveryCrash(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		d := New(seed)
		f, err := d.Create("a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = f.Write([]byte("synced")); err != nil {
			t.Fatal(err)
		}
		if err = f.Sync(); err != nil {
			t.Fatal(err)
		}
		if err = d.SyncDir("."); err != nil {
			t.Fatal(err)
		}
		if _, err = f.Write([]byte("unsynced")); err != nil {
			t.Fatal(err)
		}
		next := d.Crash(rand.New(rand.NewPCG(seed, 1)))
		g, err := next.Open("a")
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 6)
		if _, err = g.ReadAt(b, 0); err != nil || string(b) != "synced" {
			t.Fatalf("seed %d: %q %v", seed, b, err)
		}
	}
}
