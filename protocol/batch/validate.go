package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Rules are what a topic and a Produce request demand of a batch.
type Rules struct {
	// Topic and Partition are named in messages.
	Topic     string
	Partition int32
	// Version is the Produce request's. Zstd needs 7.
	Version int16
	// TransactionalID says that the request has a transactional id, be it an empty one.
	TransactionalID bool

	MaxBatchBytes int // max.message.bytes
	// MaxDecompressedBytes bounds the records of a compressed batch.
	MaxDecompressedBytes int
	// Compact says that every record needs a key.
	Compact bool

	AppendTime  bool  // message.timestamp.type is LogAppendTime
	NowMs       int64 // the broker's time
	BeforeMaxMs int64 // message.timestamp.before.max.ms
	AfterMaxMs  int64 // message.timestamp.after.max.ms

	// Compression is the topic's. The zero value keeps the producer's.
	Compression Compression
}

// Compression is what compression.type makes of a topic's batches.
type Compression struct {
	// Fixed says that batches with another codec than Codec are compressed anew.
	Fixed bool
	Codec Codec
	Level int // Kafka's for the codec
}

// noZstdBelow is the first Produce version that may carry zstd (KIP-110).
const noZstdBelow = 7

// The sizes at which Kafka's reader gives up on what isn't a batch.
const (
	sizeUpToLength = posLength + 4
	sizeUpToMagic  = posMagic + 1
	minLegacySize  = 14 // the smallest length of the oldest record format
)

// Result is what became of valid records.
type Result struct {
	// Batch is ready to be appended: all it lacks is its offset and leader epoch. It is the records' own memory, changed
	// where the topic demands it, unless it was compressed anew.
	Batch Batch
	// Recompressed says that Batch is memory of its own.
	Recompressed bool
	// MaxTimestamp is the batch's largest timestamp, or the broker's time; ms, -1 if no record has one.
	MaxTimestamp int64
}

// Validate checks what a producer sent for one partition as Kafka does, in Kafka's order, and makes it ready to be
// appended. Exactly one batch is allowed. Its header may be changed in place also when it is refused. It allocates nothing
// for a valid batch that isn't compressed anew, save for pooled buffers. Errors are *[ValidationError].
func Validate(records []byte, rules *Rules) (Result, error) {
	b, fault := single(records, rules)
	if fault != nil {
		fault.Early = true
		return Result{}, fault
	}
	if fault = envelope(b, rules); fault != nil {
		return Result{}, fault
	}
	if fault = claims(b); fault != nil {
		return Result{}, fault
	}
	v := validator{batch: b, rules: rules, target: b.Codec(), maxTimestamp: NoTimestamp}
	if rules.Compression.Fixed {
		v.target = rules.Compression.Codec
	}
	if fault = v.records(); fault != nil {
		return Result{}, fault
	}
	return v.finish()
}

// Leading looks at the first batch of what a producer sent for a partition, as Kafka does with those of a whole request
// before anything else: is it transactional? Nothing else of it is checked. What can't be told apart fails the whole request;
// the error is a *[ValidationError].
func Leading(records []byte) (transactional bool, err error) {
	size, fault := frame(records)
	if fault != nil {
		return false, fault
	}
	return size >= HeaderSize && records[posMagic] == Magic && Batch(records).IsTransactional(), nil
}

// single cuts the one batch off the records. No message goes with what is wrong: a fault of the first batch has one only
// where it fails the whole request, as [Leading] tells.
func single(records []byte, rules *Rules) (Batch, *ValidationError) {
	size, fault := frame(records)
	if fault != nil {
		return nil, fault.silent()
	}
	early := func(detail string) *ValidationError {
		return &ValidationError{Kind: KindInvalidRecord, Detail: detail}
	}
	if size == 0 {
		return nil, early("no whole batch")
	}
	if m := records[posMagic]; m != Magic {
		return nil, early(fmt.Sprintf("magic %d", m))
	}
	if size < HeaderSize {
		return nil, &ValidationError{Kind: KindCorrupt, Detail: fmt.Sprintf("batch of %d bytes", size), Cause: ErrLength}
	}
	b := Batch(records[:size:size])
	if b.Codec() == CodecZstd && rules.Version < noZstdBelow {
		return nil, &ValidationError{Kind: KindUnsupportedCompression, Detail: fmt.Sprintf("zstd in Produce version %d", rules.Version)}
	}
	more, fault := frame(records[size:])
	if fault != nil {
		return nil, fault.silent()
	}
	if more != 0 {
		return nil, early("more than one batch")
	}
	if b.IsTransactional() && !rules.TransactionalID {
		return nil, &ValidationError{Kind: KindTransactionalID, Detail: "transactional batch without a transactional id"}
	}
	return b, nil
}

// frame is the size of the batch at the start of b, whatever its magic; 0 if it isn't whole.
func frame(b []byte) (size int, fault *ValidationError) {
	if len(b) < sizeUpToLength {
		return 0, nil
	}
	length := int32(binary.BigEndian.Uint32(b[posLength:]))
	if length < minLegacySize {
		message := fmt.Sprintf("Record size %d is less than the minimum record overhead (%d)", length, minLegacySize)
		return 0, &ValidationError{Kind: KindCorrupt, Message: message, Cause: ErrLength}
	}
	if len(b) < sizeUpToMagic {
		return 0, nil
	}
	if m := int8(b[posMagic]); m < 0 || m > Magic {
		message := fmt.Sprintf("Invalid magic found in record: %d", m)
		return 0, &ValidationError{Kind: KindCorrupt, Message: message, Cause: ErrMagic}
	}
	if length > math.MaxInt32-LengthOverhead {
		return 0, &ValidationError{Kind: KindUnreadable, Detail: fmt.Sprintf("length %d", length), Cause: ErrLength}
	}
	if int64(length)+LengthOverhead > int64(len(b)) {
		return 0, nil
	}
	return int(length) + LengthOverhead, nil
}

// envelope checks what can be told of the batch without believing it.
func envelope(b Batch, rules *Rules) *ValidationError {
	if o := b.BaseOffset(); o != 0 {
		return invalid("base offset %d", o)
	}
	if len(b) > rules.MaxBatchBytes {
		return tooLarge(len(b), rules)
	}
	if err := b.VerifyChecksum(); err != nil {
		return &ValidationError{Kind: KindCorrupt, Detail: "checksum", Cause: err}
	}
	return nil
}

func tooLarge(size int, rules *Rules) *ValidationError {
	return &ValidationError{Kind: KindTooLarge, Detail: fmt.Sprintf("batch of %d bytes, at most %d allowed", size, rules.MaxBatchBytes)}
}

// claims checks what the header says of the records.
func claims(b Batch) *ValidationError {
	if !b.Codec().Known() {
		return &ValidationError{Kind: KindUnreadable, LogReached: true, Detail: b.Codec().String(), Cause: ErrCodec}
	}
	count, last := b.NumRecords(), b.LastOffsetDelta()
	switch {
	case last < 0:
		return invalid("last offset delta %d", last)
	case count <= 0:
		return invalid("count %d", count)
	case int64(last)+1 != int64(count):
		return invalid("count %d, last offset delta %d", count, last)
	case b.IsControl():
		return invalid("control batch from a client")
	case b.ProducerID() >= 0 && b.BaseSequence() < 0:
		return invalid("producer id %d with sequence %d", b.ProducerID(), b.BaseSequence())
	}
	return nil
}

// validator walks over the records of a batch whose header is sound.
type validator struct {
	batch        Batch
	rules        *Rules
	target       Codec // what the batch is to be compressed with
	maxTimestamp int64
	faults       faults
	noKeyMessage string
	misplaced    bool // a record's offset isn't the one its place gives it
	recompressed Batch
}

func (v *validator) records() *ValidationError {
	records, err := v.batch.Records(v.rules.MaxDecompressedBytes)
	if err != nil {
		return v.unreadable(err)
	}
	defer records.Release()
	if !v.summary(records.Payload) {
		if err = v.walk(&records.Iterator); err != nil {
			return &ValidationError{Kind: KindInvalidRecord, LogReached: true, Detail: "records", Cause: err}
		}
	}
	if fault := v.faults.err(); fault != nil {
		return fault
	}
	if v.target != v.batch.Codec() {
		return v.recompress(records.Payload)
	}
	if v.misplaced && v.target != CodecNone {
		return &ValidationError{Kind: KindUnreadable, LogReached: true, Detail: "offset deltas in a compressed batch"}
	}
	return nil
}

func (v *validator) unreadable(err error) *ValidationError {
	if errors.Is(err, ErrTooLarge) {
		return &ValidationError{
			Kind: KindTooLarge, Cause: err,
			Detail: fmt.Sprintf("at most %d bytes of records allowed", v.rules.MaxDecompressedBytes),
		}
	}
	return &ValidationError{Kind: KindUnreadable, LogReached: true, Detail: "records", Cause: err}
}

// summary does what walk does, faster, for batches with nothing in them that walk would have to find fault with. It is false,
// and has done nothing, for others.
func (v *validator) summary(payload []byte) bool {
	base := v.batch.BaseTimestamp()
	if v.batch.IsAppendTime() || base < 0 || base > maxDelta {
		return false
	}
	s, ok := summarize(payload, v.batch.NumRecords())
	if !ok || v.rules.Compact && s.nullKey {
		return false
	}
	first, last := base+s.minTimestamp, base+s.maxTimestamp
	if !v.rules.AppendTime && (v.outOfRange(first) || v.outOfRange(last)) {
		return false
	}
	v.maxTimestamp, v.misplaced = max(v.maxTimestamp, last), s.misplaced
	return true
}

// walk looks at every record; what is wrong with single ones is collected.
func (v *validator) walk(it *Iterator) error {
	base := v.batch.BaseTimestamp()
	appendTime := v.batch.IsAppendTime()
	for index := int32(0); it.Next(); index++ {
		r := it.Record()
		timestamp := base + r.TimestampDelta
		if appendTime { // the maximum stands for every record's
			timestamp = v.batch.MaxTimestamp()
		}
		v.maxTimestamp = max(v.maxTimestamp, timestamp)
		if r.OffsetDelta != index {
			v.misplaced = true
		}
		v.check(r, index, timestamp, appendTime)
	}
	return it.Err()
}

// check looks for what is wrong with one record; the first thing counts.
func (v *validator) check(r *Record, index int32, timestamp int64, appendTime bool) {
	switch {
	case v.rules.Compact && r.Key == nil:
		v.faults.add(index, false, v.noKey())
	case !v.rules.AppendTime && timestamp != NoTimestamp:
		if v.outOfRange(timestamp) {
			v.faults.add(index, true, fmt.Sprintf("Timestamp %d of message with offset %d is out of range. "+
				"The timestamp should be within [%d, %d]", timestamp, r.OffsetDelta,
				v.rules.NowMs-v.rules.BeforeMaxMs, v.rules.NowMs+v.rules.AfterMaxMs))
		}
	case appendTime:
		v.faults.add(index, true, v.appendTimeSet(r, timestamp))
	}
}

// outOfRange wraps around as Kafka's arithmetic does.
func (v *validator) outOfRange(timestamp int64) bool {
	diff := v.rules.NowMs - timestamp
	return diff > v.rules.BeforeMaxMs || -diff > v.rules.AfterMaxMs
}

// noKey is made once and shared, for a batch may lack very many keys.
func (v *validator) noKey() string {
	if v.noKeyMessage == "" {
		v.noKeyMessage = fmt.Sprintf("Compacted topic cannot accept message without key in topic partition %s-%d",
			v.rules.Topic, v.rules.Partition)
	}
	return v.noKeyMessage
}

func (v *validator) appendTimeSet(r *Record, timestamp int64) string {
	name, key := "DefaultRecord", max(len(r.Key), 0)
	if v.batch.Codec() != CodecNone {
		name = "PartialDefaultRecord"
		if r.Key == nil {
			key = -1
		}
	}
	return fmt.Sprintf("Invalid timestamp type in message %s(offset=%d, timestamp=%d, key=%d bytes, value=%d bytes). "+
		"Producer should not set timestamp type to LogAppendTime.", name, r.OffsetDelta, timestamp, key, len(r.Value))
}

// recompress builds the batch anew from its decompressed records, with the offsets that their places give them. The first
// record's timestamp becomes the base.
func (v *validator) recompress(payload []byte) *ValidationError {
	m := v.batch.Meta()
	if err := checkProducer(&m); err != nil {
		return &ValidationError{Kind: KindUnreadable, LogReached: true, Detail: "compress anew", Cause: err}
	}
	m.Codec, m.Level = v.target, v.rules.Compression.Level
	m.AppendTime, m.HasDeleteHorizon = false, false
	base := m.BaseTimestamp
	var builder *Builder
	it := Iterate(payload, v.batch.NumRecords())
	for index := int32(0); it.Next(); index++ {
		r := it.Record()
		timestamp := base + r.TimestampDelta
		if v.batch.IsAppendTime() { // the maximum stands for every record's
			timestamp = m.MaxTimestamp
		}
		if builder == nil {
			m.BaseTimestamp = timestamp
			builder = NewBuilder(m)
		}
		builder.AppendRecord(r, timestamp, base, index)
	}
	out, err := builder.Build()
	if err != nil {
		return &ValidationError{Kind: KindUnreadable, LogReached: true, Detail: "compress anew", Cause: err}
	}
	if len(out) > v.rules.MaxBatchBytes {
		return tooLarge(len(out), v.rules)
	}
	v.recompressed = out
	return nil
}

// checkProducer says what a batch says of its producer that Kafka doesn't write.
func checkProducer(m *Meta) error {
	switch {
	case m.ProducerID < 0 && m.Transactional:
		return fmt.Errorf("%w: a transaction without a producer id", ErrBuild)
	case m.ProducerID >= 0 && m.ProducerEpoch == -1:
		return fmt.Errorf("%w: producer id %d without an epoch", ErrBuild, m.ProducerID)
	}
	return nil
}

// finish sets what the broker decides.
func (v *validator) finish() (Result, error) {
	res := Result{Batch: v.batch, MaxTimestamp: v.maxTimestamp}
	if v.recompressed != nil {
		res.Batch, res.Recompressed = v.recompressed, true
	}
	if v.rules.AppendTime {
		res.MaxTimestamp = v.rules.NowMs
		res.Batch.SetAppendTime(v.rules.NowMs)
		return res, nil
	}
	res.Batch.SetCreateTime(v.maxTimestamp)
	return res, nil
}
