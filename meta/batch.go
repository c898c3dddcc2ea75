package meta

// Batch is a set of changes that become durable together or not at all. It is filled by one goroutine and may be used
// again after Reset. The zero value is empty.
type Batch struct{ ops []op }

// op is one change: a key that is set, or removed when value is nil.
type op struct{ key, value []byte }

// Len is the number of changes.
func (b *Batch) Len() int { return len(b.ops) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.ops = b.ops[:0] }

// PutCursor sets a committed offset.
func (b *Batch) PutCursor(group string, tp TopicPartition, c Cursor) {
	b.ops = append(b.ops, op{cursorKey(group, tp), c.encode()})
}

// DeleteCursor removes a committed offset.
func (b *Batch) DeleteCursor(group string, tp TopicPartition) {
	b.ops = append(b.ops, op{key: cursorKey(group, tp)})
}

// PutGroup sets the group coordinator's record of a group. The bytes are copied.
func (b *Batch) PutGroup(group string, record []byte) {
	b.ops = append(b.ops, op{groupKey(group), versioned(record)})
}

// DeleteGroup removes the record of a group; its cursors are removed one by one.
func (b *Batch) DeleteGroup(group string) { b.ops = append(b.ops, op{key: groupKey(group)}) }

// PutTransaction sets the transaction coordinator's record of a transactional id. The bytes are copied.
func (b *Batch) PutTransaction(id string, record []byte) {
	b.ops = append(b.ops, op{transactionKey(id), versioned(record)})
}

// DeleteTransaction removes the record of a transactional id.
func (b *Batch) DeleteTransaction(id string) { b.ops = append(b.ops, op{key: transactionKey(id)}) }
