package kbroker

// What of the limit on open files, one in so many, is for segment files that lie idle; the others are for connections, the
// files in use, and the metadata store. More than maxSegmentFiles gain nothing.
const (
	segmentFileShare = 4
	minSegmentFiles  = 16
	maxSegmentFiles  = 512
)

// segmentFiles is how many segment files stay open while nobody uses them, by the limit on open files; 0 is none.
func segmentFiles(limit uint64) int {
	if limit == 0 || limit >= maxSegmentFiles*segmentFileShare {
		return maxSegmentFiles
	}
	return max(int(limit)/segmentFileShare, minSegmentFiles)
}
