package handlers

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// UpdateFeatures, versions 0 to 2. All changes are made or none. Lowering metadata.version is refused.

// The kinds of changes.
const (
	upgrade         = 1
	safeDowngrade   = 2
	unsafeDowngrade = 3
)

func (h *Handlers) updateFeatures(r *protocol.Request, req *kmsg.UpdateFeaturesRequest) protocol.Response {
	body := kmsg.NewPtrUpdateFeaturesResponse()
	body.Version = req.Version
	if err := h.changeFeatures(req); err != nil {
		body.ErrorCode, body.ErrorMessage = int16(codeOf(err)), textOf(err)
		return reply(r, body)
	}
	if req.Version < 2 {
		for i := range req.FeatureUpdates {
			result := kmsg.NewUpdateFeaturesResponseResult()
			result.Feature, result.ErrorMessage = strings.Clone(req.FeatureUpdates[i].Feature), kmsg.StringPtr("NONE")
			body.Results = append(body.Results, result)
		}
	}
	return reply(r, body)
}

func (h *Handlers) changeFeatures(req *kmsg.UpdateFeaturesRequest) error {
	h.Features.changing.Lock()
	defer h.Features.changing.Unlock()
	changes := make(map[string]int16, len(req.FeatureUpdates))
	for i := range req.FeatureUpdates {
		u := &req.FeatureUpdates[i]
		kind := u.UpgradeType
		if req.Version == 0 {
			kind = upgrade
			if u.AllowDowngrade {
				kind = safeDowngrade
			}
		}
		if err := h.Features.check(u.Feature, u.MaxVersionLevel, kind); err != nil {
			return &wireError{codeOf(err), "The update failed for all features since the following feature had an error: " + err.Error()}
		}
		changes[strings.Clone(u.Feature)] = u.MaxVersionLevel
	}
	if req.ValidateOnly || len(changes) == 0 {
		return nil
	}
	return h.Features.change(changes)
}
