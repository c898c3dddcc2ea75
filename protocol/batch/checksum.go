package batch

import "github.com/klauspost/crc32"

// castagnoli is the table of CRC-32C. This file is the only place that imports the checksum.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the CRC-32C (Castagnoli) of b, used for batches and for every side file of the log.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// UpdateChecksum adds b to a running CRC-32C; sum is 0 at the start.
func UpdateChecksum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }
