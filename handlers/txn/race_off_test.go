//go:build !race

package txn

const modelSeeds = 3000
