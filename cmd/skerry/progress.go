package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skerry-run/skerry"
)

// progressDelay is how long something may take before a line tells of it.
const progressDelay = time.Second

// progress shows a line while something takes long. Its methods do nothing on
// a nil one.
type progress struct {
	words *words

	mu    sync.Mutex
	users int // of the line: what is under way may have parts that are
	line  *progressLine
	step  func() // ends the phase of a run that is under way
}

// newProgress gives the progress of an invocation, nil where nobody would see
// it.
func newProgress(w *words) *progress {
	if !w.terminal {
		return nil
	}
	return &progress{words: w}
}

// begin tells of something until end is called. Within something else that is
// told of it changes nothing.
func (p *progress) begin(message string) (end func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users++; p.users == 1 {
		p.line = newProgressLine(p.words, message)
	}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.users--; p.users == 0 {
			p.line.end()
			p.line = nil
		}
	})
}

// event changes what the line says.
func (p *progress) event(e skerry.Event) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line != nil {
		p.line.say(e.Message)
	}
}

// phase is told of each phase of a run. While the program runs there is no
// line: what it prints is what there is to see.
func (p *progress) phase(e skerry.Event) {
	if p == nil {
		return
	}
	p.endPhase()
	if e.Phase != "run" {
		p.step = p.begin(e.Message)
	}
}

func (p *progress) endPhase() {
	if p != nil && p.step != nil {
		p.step()
		p.step = nil
	}
}

// progressLine is the line itself.
type progressLine struct {
	stop, done chan struct{}
	news       chan string
}

func newProgressLine(w *words, message string) *progressLine {
	const pending = 16
	l := &progressLine{stop: make(chan struct{}), done: make(chan struct{}), news: make(chan string, pending)}
	go l.show(w, message)
	return l
}

func (l *progressLine) show(w *words, message string) {
	defer close(l.done)
	began := time.Now()
	timer := time.NewTimer(progressDelay)
	defer timer.Stop()
	for {
		select {
		case <-l.stop:
			w.endStatus()
			return
		case message = <-l.news:
			if time.Since(began) < progressDelay {
				continue
			}
		case <-timer.C:
		}
		w.setStatus(fmt.Sprintf("%s (%ds)", message, int(time.Since(began).Seconds())))
		timer.Reset(progressDelay)
	}
}

func (l *progressLine) say(message string) {
	select {
	case l.news <- message:
	default: // the line is behind; the next event will do
	}
}

func (l *progressLine) end() {
	close(l.stop)
	<-l.done
}

// outerStart is how much later than the backend's own start timeout ours
// comes: the inner one knows what it was waiting for.
const outerStart = 5 * time.Second

// patient is a backend whose Create waits as long as the settings allow. It
// shows what takes long.
type patient struct {
	skerry.Backend
	limit    time.Duration
	progress *progress
}

func (b *patient) Create(ctx context.Context, spec skerry.SandboxSpec) (skerry.Sandbox, error) {
	late := errors.New("start timeout")
	ctx, cancel := context.WithTimeoutCause(ctx, b.limit+outerStart, late)
	defer cancel()
	defer b.progress.begin("making the sandbox")()
	spec.Progress = b.progress.event
	s, err := b.Backend.Create(ctx, spec)
	if err != nil && errors.Is(context.Cause(ctx), late) {
		return nil, skerry.Errorf(skerry.Unavailable, "create sandbox", "it was not ready within the start timeout of %s: %w", b.limit, err).
			WithOutcome(skerry.StartFailed).WithHint("raise timeouts.start, or see skerry doctor")
	}
	return s, err
}

func (b *patient) Open(ctx context.Context, ref skerry.Ref) (skerry.Sandbox, error) {
	defer b.progress.begin("reaching the sandbox")()
	return b.Backend.Open(ctx, ref)
}

func (b *patient) Delete(ctx context.Context, ref skerry.Ref, opts skerry.DeleteOptions) error {
	defer b.progress.begin("removing " + ref.Name)()
	return b.Backend.Delete(ctx, ref, opts)
}

func (b *patient) Check(ctx context.Context) (skerry.Report, error) {
	defer b.progress.begin("looking at what sandboxes need")()
	return b.Backend.Check(ctx)
}
