// Package verify attacks a real sandbox of a backend and tells what stopped
// each attack. Every "blocked" has its control: what could not be reached from
// inside was shown to be there from outside.
package verify

import (
	"encoding/json"

	"github.com/skerry-run/skerry"
)

// Config says what is attacked.
type Config struct {
	Backend skerry.Backend
	// Init is the path of skerry-init inside its sandboxes; "" is
	// /run/skerry/init.
	Init string
	// SameHost says that sandboxes live on this machine, so that the controls
	// on this side mean something.
	SameHost bool
	// Only, when not empty, names the attacks to make.
	Only []string
}

// Status is what came of one attack.
type Status string

const (
	Blocked   Status = "blocked"
	Open      Status = "open"    // the attack worked
	Unknown   Status = "unknown" // it proves nothing; never a pass
	NotTested Status = "not_tested"
)

// Line is one attack and what came of it.
type Line struct {
	Name   string
	Status Status
	Tried  string
	Detail string // what stopped it, what worked, or why it says nothing
}

// MarshalJSON gives blocked as true, false, "unknown" or "not_tested".
func (l Line) MarshalJSON() ([]byte, error) {
	var blocked any = string(l.Status)
	switch l.Status {
	case Blocked:
		blocked = true
	case Open:
		blocked = false
	}
	return json.Marshal(struct {
		Name    string `json:"name"`
		Blocked any    `json:"blocked"`
		Tried   string `json:"tried"`
		Detail  string `json:"detail"`
	}{l.Name, blocked, l.Tried, l.Detail})
}

// Passed says whether every attack that could be made was blocked, and at
// least one was.
func Passed(lines []Line) bool {
	blocked := 0
	for _, l := range lines {
		switch l.Status {
		case Blocked:
			blocked++
		case NotTested:
		default:
			return false
		}
	}
	return blocked > 0
}
