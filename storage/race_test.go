//go:build race

package storage

// raceDetector says that everything takes several times as long.
const raceDetector = true
