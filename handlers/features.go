package handlers

import "github.com/twmb/franz-go/pkg/kmsg"

// featuresEpoch is the epoch of the finalized features. They change only with the program, so one number will do; it is
// not -1, which would mean that there are none.
const featuresEpoch = 1

// feature is a feature of the cluster (KIP-584) that this broker serves, with the versions Kafka 4.4 gives it. A feature
// whose requests aren't served is left out: clients take it as level 0.
type feature struct {
	name          string
	min, max      int16 // supported
	finalized     int16
	sinceRequests int16 // the first ApiVersions version that lists it as supported (KAFKA-17492: not those with minimum 0)
}

// metadataVersion 33 is 4.4-IV1, the level whose requests are served as far as the table has them. Tools that format
// or describe a cluster expect to find the feature; no client decides anything by it.
func features() [2]feature {
	return [...]feature{
		// The protocol of KIP-848 for consumer groups.
		{name: "group.version", min: 0, max: 1, finalized: 1, sinceRequests: 4},
		{name: "metadata.version", min: 7, max: 33, finalized: 33, sinceRequests: 3},
	}
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

func finalizedFeatures() []kmsg.ApiVersionsResponseFinalizedFeature {
	var all []kmsg.ApiVersionsResponseFinalizedFeature
	for _, f := range features() {
		s := kmsg.NewApiVersionsResponseFinalizedFeature()
		s.Name, s.MinVersionLevel, s.MaxVersionLevel = f.name, f.finalized, f.finalized
		all = append(all, s)
	}
	return all
}
