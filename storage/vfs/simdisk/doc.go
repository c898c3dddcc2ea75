// Package simdisk is a disk in memory that fails the way real ones do. [Disk] implements vfs.FS and keeps, for each file,
// what a sync has made durable apart from what was only written, and for each directory the names that a directory sync has
// made durable apart from the operations since.
//
// [Disk.Crash] pulls the plug: each unsynced write survives wholly, in part, as zeros or not at all, and each unsynced
// directory operation happened or didn't. [Disk.Kill] ends the process: everything written is still there, and still as
// unsynced as it was. Both leave the old disk and all its handles dead and return a new one. [Disk.OnOp] is asked before
// every operation and can let it fail or cut the power there; [Disk.SetCapacity] makes the disk full, [Disk.FlipBit] and
// [Disk.Overwrite] let it rot.
//
// What survives is decided by the random numbers passed in alone, so that a seed plays the same crash again. Content is kept
// in pages that are shared until they are written, between the durable and the present state and between a disk and
// its successors; a crash costs little more than the bytes that were not synced.
package simdisk
