// Package probe has attacks on a sandbox from inside: what user code would try
// against the init, the host and its neighbours. skerry-init carries them, so
// that they run in any image; `skerry verify` starts them and reports.
//
// An attack succeeds, is blocked, or proves nothing. What can also mean that
// there was nothing to attack is unknown, and unknown is never a pass.
package probe

import (
	"encoding/json"
	"fmt"
)

// Verdict says whether an attack was stopped.
type Verdict string

const (
	Blocked Verdict = "blocked"
	Open    Verdict = "open"    // the attack worked
	Unknown Verdict = "unknown" // the attempt proves nothing
)

// Finding is what came of one attack.
type Finding struct {
	Name    string
	Verdict Verdict
	Detail  string // what was tried and what stopped it, or what worked
}

// findingJSON is the line that a probe prints: blocked is true, false or
// "unknown".
type findingJSON struct {
	Name    string          `json:"name"`
	Blocked json.RawMessage `json:"blocked"`
	Detail  string          `json:"detail"`
}

// MarshalJSON gives the line that a probe prints.
func (f Finding) MarshalJSON() ([]byte, error) {
	blocked := json.RawMessage(`"unknown"`)
	switch f.Verdict {
	case Blocked:
		blocked = json.RawMessage("true")
	case Open:
		blocked = json.RawMessage("false")
	}
	return json.Marshal(findingJSON{f.Name, blocked, f.Detail})
}

// maxDetail bounds what a probe's line says: it comes out of a sandbox.
const maxDetail = 4 << 10

// UnmarshalJSON reads the line that a probe prints.
func (f *Finding) UnmarshalJSON(data []byte) error {
	var j findingJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	f.Name, f.Detail = j.Name, j.Detail[:min(len(j.Detail), maxDetail)]
	switch string(j.Blocked) {
	case "true":
		f.Verdict = Blocked
	case "false":
		f.Verdict = Open
	case `"unknown"`:
		f.Verdict = Unknown
	default:
		return fmt.Errorf("blocked is %.20s, want true, false or \"unknown\"", j.Blocked)
	}
	return nil
}
