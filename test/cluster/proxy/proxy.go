// Package proxy is a TCP proxy whose connections fail on demand, for tests of
// what a client does when the network between it and a server is bad.
package proxy

import (
	"errors"
	"net"
	"sync"
	"time"
)

// Direction is one of the two ways that bytes flow.
type Direction int

const (
	ToServer Direction = iota
	ToClient
)

// Proxy forwards connections to one address. It starts whole, and is safe for
// use by many goroutines. The zero value is of no use: see Listen.
type Proxy struct {
	target   string
	listener net.Listener
	done     sync.WaitGroup

	mu    sync.Mutex
	state state
	pairs map[*pair]struct{}
	total [2]int64
}

// state is the fault in force. Its changed channel is closed when another
// takes its place.
type state struct {
	changed chan struct{}
	refuse  bool
	stall   bool
	delay   time.Duration
	cut     [2]*budget // nil: not to be cut
}

// Listen forwards what connects to an address of its own on loopback to target
// ("host:port"). The caller closes it.
func Listen(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: l, state: state{changed: make(chan struct{})}, pairs: map[*pair]struct{}{}}
	p.done.Add(1)
	go p.accept()
	return p, nil
}

// Addr is where the proxy listens ("127.0.0.1:port").
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Restore ends whatever fault is in force. Connections that a fault closed stay
// closed; those that it held go on, and nothing that they sent is lost.
func (p *Proxy) Restore() { p.set(state{}) }

// Drop resets every connection, and every new one, until Restore.
func (p *Proxy) Drop() {
	p.set(state{refuse: true, stall: true}) // stall: what was held before is not let out
	p.reset()
}

// Reset resets every connection that there is; new ones are served.
func (p *Proxy) Reset() { p.reset() }

// Stall passes no byte on until Restore, and closes nothing: to both ends the
// network looks as if the cable had been pulled. New connections are accepted.
func (p *Proxy) Stall() { p.set(state{stall: true}) }

// Delay passes every byte on d later than it came, until Restore. Order and
// throughput stay, up to what a connection may have in flight.
func (p *Proxy) Delay(d time.Duration) { p.set(state{delay: d}) }

// CutAfter passes on n more bytes of direction d, of all connections together,
// then resets the connection that would have carried the next one, in the
// middle of whatever it was. It cuts once: from then on the proxy is whole.
// Restore takes back a cut that has not happened.
func (p *Proxy) CutAfter(d Direction, n int64) {
	var s state
	s.cut[d] = &budget{left: n}
	p.set(s)
}

// Connections is how many connections are open through the proxy.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pairs)
}

// Passed is how many bytes of direction d were passed on: handed to the system,
// at the latest when they arrive.
func (p *Proxy) Passed(d Direction) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total[d]
}

// Close resets every connection and returns when no goroutine of the proxy is
// left.
func (p *Proxy) Close() error {
	p.set(state{refuse: true, stall: true}) // stall: what was held before is not let out
	err := p.listener.Close()
	p.reset()
	p.done.Wait()
	return err
}

func (p *Proxy) set(s state) {
	s.changed = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.state.changed)
	p.state = s
}

func (p *Proxy) now() state {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

func (p *Proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pair := range p.pairs {
		pair.reset()
	}
}

func (p *Proxy) accept() {
	defer p.done.Done()
	for {
		c, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.done.Add(1)
		go p.serve(c.(*net.TCPConn))
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	defer p.done.Done()
	pair := &pair{proxy: p, client: client, ended: make(chan struct{})}
	if !p.admit(pair) {
		pair.reset()
		return
	}
	defer p.forget(pair)
	server, err := net.Dial("tcp", p.target)
	if err != nil || !pair.connect(server.(*net.TCPConn)) {
		pair.reset()
		return
	}
	pair.carry()
}

// admit counts the pair among the open ones, unless connections are refused.
func (p *Proxy) admit(x *pair) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.refuse {
		return false
	}
	p.pairs[x] = struct{}{}
	return true
}

func (p *Proxy) forget(x *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, x)
}

func (p *Proxy) count(d Direction, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total[d] += int64(n)
}

// spent ends the fault that b belongs to, when it still is in force.
func (p *Proxy) spent(b *budget) {
	if s := p.now(); s.cut[ToServer] == b || s.cut[ToClient] == b {
		p.Restore()
	}
}

// budget is how many bytes may still pass; it is shared by all connections.
type budget struct {
	mu   sync.Mutex
	left int64
}

// take gives how many of n bytes may pass.
func (b *budget) take(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	take := min(int64(n), b.left)
	b.left -= take
	return int(take)
}
