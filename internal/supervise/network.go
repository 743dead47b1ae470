//go:build linux

package supervise

import "github.com/skerry-run/skerry"

func (s *supervisor) makeNetwork() error {
	return skerry.Errorf(skerry.Denied, op, "network").WithOutcome(skerry.Refused)
}
