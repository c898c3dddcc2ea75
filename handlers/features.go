package handlers

import (
	"fmt"
	"maps"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// The features whose level something goes by.
const (
	featureGroups       = "group.version" // 0 turns the requests of KIP-848 off
	featureMetadata     = "metadata.version"
	FeatureTransactions = "transaction.version" // FeatureTransactions is 2 for clients that are to use transactions v2.
)

// feature is a feature of the cluster (KIP-584) that this broker serves, with the versions Kafka 4.4 gives it. A feature
// whose requests aren't served is left out: clients take it as level 0.
type feature struct {
	name          string
	min, max      int16 // supported; the level is max until someone changes it
	sinceRequests int16 // the first ApiVersions version that lists it as supported (KAFKA-17492: not those with minimum 0)
}

// metadataVersion 33 is 4.4-IV1, the level whose requests are served as far as the table has them. Tools that format
// or describe a cluster expect to find the feature; no client decides anything by it.
func features() [3]feature {
	return [...]feature{
		// The protocol of KIP-848 for consumer groups.
		{name: featureGroups, min: 0, max: 1, sinceRequests: 4},
		{name: featureMetadata, min: 7, max: 33, sinceRequests: 3},
		// 2 is transactions v2 (KIP-890). Requests of any version are served at all levels, as by Kafka.
		{name: FeatureTransactions, min: 0, max: 2, sinceRequests: 4},
	}
}

// Where changed levels are kept, and the setting that counts the changes.
const (
	// FeaturesKind is the kind under which the levels of features are in the ConfigStore.
	FeaturesKind  = "features"
	featuresName  = "cluster"
	featuresEpoch = "epoch"
)

// Features holds the levels of the cluster's features. Concurrent calls are allowed.
type Features struct {
	store ConfigStore // nil keeps changes until the broker stops

	changing sync.Mutex // held while a change is being stored; taken before mu
	mu       struct {
		sync.RWMutex
		levels map[string]int16 // those that have been changed
		epoch  int64
	}
}

// NewFeatures makes the levels from what was stored: settings of FeaturesKind, nil for none.
func NewFeatures(stored map[string]string, store ConfigStore) (*Features, error) {
	f := &Features{store: store}
	f.mu.levels, f.mu.epoch = make(map[string]int16), 1
	for name, text := range stored {
		level, err := strconv.ParseInt(text, 10, 64)
		if err != nil || level < 0 {
			return nil, fmt.Errorf("level %q of feature %s", text, name)
		}
		if name == featuresEpoch {
			f.mu.epoch = level
			continue
		}
		if known := featureNamed(name); known == nil || level < int64(known.min) || level > int64(known.max) {
			return nil, fmt.Errorf("feature %s at level %d is not served by this version", name, level)
		}
		f.mu.levels[name] = int16(level)
	}
	return f, nil
}

// Level is the level of a feature; 0 for one that isn't served.
func (f *Features) Level(name string) int16 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if level, changed := f.mu.levels[name]; changed {
		return level
	}
	if known := featureNamed(name); known != nil {
		return known.max
	}
	return 0
}

// Epoch grows with each change.
func (f *Features) Epoch() int64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.mu.epoch
}

// change sets levels and makes them durable, all or none. The caller has checked them and holds changing.
func (f *Features) change(to map[string]int16) error {
	f.mu.RLock()
	levels, epoch := maps.Clone(f.mu.levels), f.mu.epoch+1
	f.mu.RUnlock()
	maps.Copy(levels, to)
	if f.store != nil {
		settings := map[string]string{featuresEpoch: strconv.FormatInt(epoch, 10)}
		for name, level := range levels {
			settings[name] = strconv.Itoa(int(level))
		}
		if err := f.store.PutConfig(FeaturesKind, featuresName, settings); err != nil {
			return fmt.Errorf("store the levels of features: %w", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.levels, f.mu.epoch = levels, epoch
	return nil
}

// check says what is wrong with a change.
func (f *Features) check(name string, level int16, kind int8) error {
	refuse := func(format string, args ...any) error {
		return &wireError{
			protocol.InvalidUpdateVersion,
			fmt.Sprintf("Invalid update version %d for feature %s. ", level, validUTF8(name)) + fmt.Sprintf(format, args...),
		}
	}
	known := featureNamed(name)
	switch current := f.Level(name); {
	case kind < upgrade || kind > unsafeDowngrade:
		return refuse("The controller does not support the given upgrade type.")
	case level < 0:
		return refuse("A feature version cannot be less than 0.")
	case known == nil:
		return refuse("This broker does not support this feature.")
	case level < known.min || level > known.max:
		return refuse("This broker only supports versions %d-%d", known.min, known.max)
	case level < current && kind == upgrade:
		return refuse("Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.")
	case level > current && kind != upgrade:
		return refuse("Can't downgrade to a newer version.")
	case level < current && name == featureMetadata:
		return refuse("Its level is that of the metadata, which this broker has in one form only.")
	}
	return nil
}

func featureNamed(name string) *feature {
	for _, f := range features() {
		if f.name == name {
			return &f
		}
	}
	return nil
}

func supportedFeatures(version int16) []kmsg.ApiVersionsResponseSupportedFeature {
	var all []kmsg.ApiVersionsResponseSupportedFeature
	for _, f := range features() {
		if version < f.sinceRequests {
			continue
		}
		s := kmsg.NewApiVersionsResponseSupportedFeature()
		s.Name, s.MinVersion, s.MaxVersion = f.name, f.min, f.max
		all = append(all, s)
	}
	return all
}

// finalized lists the levels, without those at 0, as Kafka does.
func (f *Features) finalized() []kmsg.ApiVersionsResponseFinalizedFeature {
	var all []kmsg.ApiVersionsResponseFinalizedFeature
	for _, known := range features() {
		s := kmsg.NewApiVersionsResponseFinalizedFeature()
		s.Name = known.name
		if s.MinVersionLevel = f.Level(known.name); s.MinVersionLevel == 0 {
			continue
		}
		s.MaxVersionLevel = s.MinVersionLevel
		all = append(all, s)
	}
	return all
}
