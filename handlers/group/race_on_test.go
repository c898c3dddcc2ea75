//go:build race

package group

// raceDetector makes long tests shorter.
const raceDetector = true
