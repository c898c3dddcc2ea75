//go:build race

package txn

// modelSeeds is smaller under the race detector, which slows everything down.
const modelSeeds = 150
