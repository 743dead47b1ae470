//go:build linux

package parts

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// heartbeat is the longest silence while something is being built.
const heartbeat = 15 * time.Second

// A progress tells what is being built, one line at a time.
type progress struct {
	mu      sync.Mutex
	log     io.Writer // nil: silent
	jobs    []*job    // those that build or wait, in the order they began
	beating chan struct{}
	beats   sync.WaitGroup
}

func newProgress(log io.Writer) *progress { return &progress{log: log} }

// A job is one part as progress sees it. It is silent until it waits or begins.
type job struct {
	progress *progress
	name     string
	started  time.Time
	waiting  bool
	packages int    // compiled so far
	last     string // what the go command said last
}

func (p *progress) job(name string) *job { return &job{progress: p, name: name} }

// wait says that another process is building the part.
func (j *job) wait() {
	j.say("another process is building it, wait for that")
	j.show(true)
}

// begin says that the part is being built from now on.
func (j *job) begin(tool goTool) {
	j.say("build it with %s", tool.identity())
	j.show(false)
}

// built says how long it took.
func (j *job) built() {
	j.progress.mu.Lock()
	took := time.Since(j.started)
	j.progress.mu.Unlock()
	j.say("built in %.0f s", took.Seconds())
}

// show makes the job part of the heartbeat.
func (j *job) show(waiting bool) {
	p := j.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	if j.started.IsZero() {
		p.jobs = append(p.jobs, j)
	}
	j.waiting, j.started = waiting, time.Now()
	if p.beating == nil {
		stop := make(chan struct{})
		p.beating = stop
		p.beats.Go(func() { p.beat(stop) })
	}
}

// end takes the job out of the heartbeat.
func (j *job) end() {
	p := j.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.jobs {
		if other == j {
			p.jobs = append(p.jobs[:i], p.jobs[i+1:]...)
			return
		}
	}
}

// say writes a line about the part.
func (j *job) say(format string, args ...any) {
	p := j.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(j.name + ": " + fmt.Sprintf(format, args...))
}

// heard takes a line of the go command: packages by name as they are compiled,
// and modules that are downloaded.
func (j *job) heard(line string) {
	j.progress.mu.Lock()
	defer j.progress.mu.Unlock()
	if !strings.HasPrefix(line, "go: ") {
		j.packages++
	}
	j.last = strings.TrimPrefix(line, "go: ")
}

// beat says what is going on until stop.
func (p *progress) beat(stop <-chan struct{}) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		p.mu.Lock()
		var now []string
		for _, j := range p.jobs {
			now = append(now, j.state())
		}
		if len(now) > 0 {
			p.line("still at it: " + strings.Join(now, ", "))
		}
		p.mu.Unlock()
	}
}

// state is the job in a few words. The lock is held.
func (j *job) state() string {
	seconds := time.Since(j.started).Seconds()
	if j.waiting {
		return fmt.Sprintf("%s (wait for another process, %.0f s)", j.name, seconds)
	}
	if j.last == "" {
		// What was compiled before is only linked, of which nothing is heard.
		return fmt.Sprintf("%s (%.0f s)", j.name, seconds)
	}
	return fmt.Sprintf("%s (%.0f s, %d packages, %s)", j.name, seconds, j.packages, j.last)
}

// line writes to the log. The lock is held.
func (p *progress) line(text string) {
	if p.log != nil {
		fmt.Fprintf(p.log, "parts: %s\n", text)
	}
}

// stop ends the heartbeat and waits for it.
func (p *progress) stop() {
	p.mu.Lock()
	beating := p.beating
	p.beating = nil
	p.mu.Unlock()
	if beating != nil {
		close(beating)
	}
	p.beats.Wait()
}
