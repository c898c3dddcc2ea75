// Package batch is RecordBatch v2, the unit of the Kafka log: a view over its bytes, its checksum, validation of what a
// producer sent, iteration over its records, building, and compression.
//
// A batch is 61 bytes of header and then its records, compressed as a whole or not:
//
//	0   8  base offset
//	8   4  length of everything after this field
//	12  4  partition leader epoch
//	16  1  magic, 2
//	17  4  CRC-32C of everything from attributes on
//	21  2  attributes: bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
//	23  4  last offset delta
//	27  8  base timestamp, ms
//	35  8  maximum timestamp, ms
//	43  8  producer id
//	51  2  producer epoch
//	53  4  base sequence
//	57  4  number of records
//	61     records
//
// All integers are big-endian. The checksum leaves out bytes 0 to 20, which the broker assigns.
// Source: https://kafka.apache.org/documentation/#recordbatch, KIP-98, KIP-534.
package batch
