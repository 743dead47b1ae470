package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-run/skerry"
)

// progressDelay is how long something may take before a line tells of it.
const progressDelay = time.Second

// progress shows a line while a sandbox is being made.
type progress struct {
	words *words
	stop  chan struct{}
	done  chan struct{}
	news  chan string
}

// newProgress gives the progress of this invocation, nil where nobody would
// see it.
func (a *app) newProgress() *progress {
	if !a.words.terminal {
		return nil
	}
	return &progress{words: a.words}
}

func (p *progress) begin(message string) {
	if p == nil {
		return
	}
	p.stop, p.done, p.news = make(chan struct{}), make(chan struct{}), make(chan string, 16)
	go func() {
		defer close(p.done)
		began := time.Now()
		timer := time.NewTimer(progressDelay)
		defer timer.Stop()
		for {
			select {
			case <-p.stop:
				p.words.endStatus()
				return
			case message = <-p.news:
				if time.Since(began) < progressDelay {
					continue
				}
			case <-timer.C:
			}
			p.words.setStatus(fmt.Sprintf("%s (%ds)", message, int(time.Since(began).Seconds())))
			timer.Reset(progressDelay)
		}
	}()
}

func (p *progress) event(e skerry.Event) {
	if p == nil {
		return
	}
	select {
	case p.news <- e.Message:
	default: // the line is behind; the next event will do
	}
}

func (p *progress) end() {
	if p == nil {
		return
	}
	close(p.stop)
	<-p.done
}

// outerStart is how much later than the backend's own start timeout ours
// comes: the inner one knows what it was waiting for.
const outerStart = 5 * time.Second

// patient is a backend whose Create waits as long as the settings allow, and
// shows what it waits for.
type patient struct {
	skerry.Backend
	limit    time.Duration
	progress *progress
}

func (b *patient) Create(ctx context.Context, spec skerry.SandboxSpec) (skerry.Sandbox, error) {
	late := errors.New("start timeout")
	ctx, cancel := context.WithTimeoutCause(ctx, b.limit+outerStart, late)
	defer cancel()
	b.progress.begin("making the sandbox")
	defer b.progress.end()
	spec.Progress = b.progress.event
	s, err := b.Backend.Create(ctx, spec)
	if err != nil && errors.Is(context.Cause(ctx), late) {
		return nil, skerry.Errorf(skerry.Unavailable, "create sandbox", "it was not ready within the start timeout of %s: %w", b.limit, err).
			WithOutcome(skerry.StartFailed).WithHint("raise timeouts.start, or see skerry doctor")
	}
	return s, err
}
