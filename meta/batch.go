package meta

// Batch is a set of changes that become durable together or not at all. It is filled by one goroutine and may be used
// again after Reset. The zero value is empty.
type Batch struct {
	ops  []op
	data []byte // keys and values, each after the one before
}

// op is one change: a key that is set to a value, or removed.
type op struct {
	key, end int    // where key and value end in the data; the key begins where the operation before ended
	remove   bool   // there is no value
	topic    string // of a cursor that is set
}

// Len is the number of changes.
func (b *Batch) Len() int { return len(b.ops) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.ops, b.data = b.ops[:0], b.data[:0] }

// PutCursor sets a committed offset.
func (b *Batch) PutCursor(group string, tp TopicPartition, c Cursor) {
	b.data = appendCursorKey(b.data, group, tp)
	key := len(b.data)
	b.data = c.append(b.data)
	b.ops = append(b.ops, op{key: key, end: len(b.data), topic: tp.Topic})
}

// DeleteCursor removes a committed offset.
func (b *Batch) DeleteCursor(group string, tp TopicPartition) {
	b.data = appendCursorKey(b.data, group, tp)
	b.removed()
}

// PutGroup sets the group coordinator's record of a group. The bytes are copied.
func (b *Batch) PutGroup(group string, record []byte) { b.record(groupPrefix, group, record) }

// DeleteGroup removes the record of a group; its cursors are removed one by one.
func (b *Batch) DeleteGroup(group string) {
	b.data = appendKey(b.data, groupPrefix, group)
	b.removed()
}

// PutTransaction sets the transaction coordinator's record of a transactional id. The bytes are copied.
func (b *Batch) PutTransaction(id string, record []byte) { b.record(txnPrefix, id, record) }

// DeleteTransaction removes the record of a transactional id.
func (b *Batch) DeleteTransaction(id string) {
	b.data = appendKey(b.data, txnPrefix, id)
	b.removed()
}

func (b *Batch) record(prefix, name string, record []byte) {
	b.data = appendKey(b.data, prefix, name)
	key := len(b.data)
	b.data = append(append(b.data, formatVersion), record...)
	b.ops = append(b.ops, op{key: key, end: len(b.data)})
}

// set adds a change with key and value ready made, remove one with the key.
func (b *Batch) set(key, value []byte) {
	b.data = append(b.data, key...)
	end := len(b.data)
	b.data = append(b.data, value...)
	b.ops = append(b.ops, op{key: end, end: len(b.data)})
}

func (b *Batch) remove(key []byte) {
	b.data = append(b.data, key...)
	b.removed()
}

// removed ends an operation whose key has been appended.
func (b *Batch) removed() {
	b.ops = append(b.ops, op{key: len(b.data), end: len(b.data), remove: true})
}
