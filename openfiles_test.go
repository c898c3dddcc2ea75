package kbroker

import "testing"

func TestIdleSegmentFilesLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	for limit, want := range map[uint64]int{0: 512, 8: 16, 256: 64, 1024: 256, 1 << 20: 512, ^uint64(0): 512} {
		if got := segmentFiles(limit); got != want {
			t.Errorf("%d open files: %d for segments, want %d", limit, got, want)
		}
	}
	if openFileLimit() == 1 {
		t.Error("no limit was read")
	}
}
