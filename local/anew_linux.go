package local

import (
	"sync"

	"github.com/skerry-run/skerry/internal/boxes"
)

// madeAnew remembers whether a session that was lost and made anew has told so:
// the first command that is started in it does, whoever starts it.
type madeAnew struct {
	claim func() bool // true for the one command, of all processes, that tells

	mu      sync.Mutex
	telling bool
	settled bool // a command was started, or there is nothing to tell
}

func (b *Backend) madeAnew(r boxes.Record) *madeAnew {
	if !r.Recreated || b.dirs.Told(r.Key) {
		return &madeAnew{settled: true}
	}
	return &madeAnew{telling: true, claim: func() bool { return b.dirs.Tell(r.Key) }}
}

// untold says whether the command that was started last, or when there is none
// the next one, has to tell.
func (m *madeAnew) untold() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.telling
}

func (m *madeAnew) started() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.settled {
		m.telling = false
		return
	}
	m.settled = true
	m.telling = m.claim()
}
