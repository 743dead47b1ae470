package proxy

import (
	"net"
	"sync"
	"time"
)

const (
	// chunkSize is how much is read at once.
	chunkSize = 32 << 10
	// inFlight bounds the chunks of one direction that wait for their time: 8 MiB.
	inFlight = 256
)

// pair is one connection through the proxy: the client's and the server's half.
type pair struct {
	proxy  *Proxy
	client *net.TCPConn
	ended  chan struct{} // closed by reset

	mu     sync.Mutex
	server *net.TCPConn
	isOver bool
}

// chunk is what was read at once. No data means that the sender said it was its
// last.
type chunk struct {
	data []byte
	came time.Time
}

// connect adds the server's half; false when the pair was reset meanwhile.
func (x *pair) connect(server *net.TCPConn) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.server = server
	if x.isOver {
		hardClose(server)
	}
	return !x.isOver
}

// carry moves bytes both ways until both are over.
func (x *pair) carry() {
	var both sync.WaitGroup
	both.Go(func() { x.oneWay(ToServer, x.client, x.server) })
	both.Go(func() { x.oneWay(ToClient, x.server, x.client) })
	both.Wait()
	x.client.Close()
	x.server.Close()
}

func (x *pair) oneWay(d Direction, from, to *net.TCPConn) {
	chunks := make(chan chunk, inFlight)
	go func() {
		defer close(chunks)
		for {
			buf := make([]byte, chunkSize)
			n, err := from.Read(buf)
			if n > 0 && !x.hand(chunks, chunk{buf[:n], time.Now()}) {
				return
			}
			if err != nil {
				return
			}
		}
	}()
	for c := range chunks {
		if !x.pass(d, c, to) {
			x.reset()
			return
		}
	}
	if x.allowed(chunk{came: time.Now()}) == nil {
		return
	}
	_ = to.CloseWrite()
}

// hand queues c; false when the pair ended.
func (x *pair) hand(chunks chan<- chunk, c chunk) bool {
	select {
	case chunks <- c:
		return true
	case <-x.ended:
		return false
	}
}

// pass writes c when the fault in force lets it; false ends the pair.
func (x *pair) pass(d Direction, c chunk, to *net.TCPConn) bool {
	s := x.allowed(c)
	if s == nil {
		return false
	}
	n := len(c.data)
	if b := s.cut[d]; b != nil {
		n = b.take(n)
	}
	if n > 0 {
		x.proxy.count(d, n)
		if _, err := to.Write(c.data[:n]); err != nil {
			return false
		}
	}
	if n < len(c.data) {
		x.proxy.spent(s.cut[d])
		return false
	}
	return true
}

// allowed waits until c may be passed on and gives the state that lets it; nil
// when the pair ended before.
func (x *pair) allowed(c chunk) *state {
	for {
		s := x.proxy.now()
		wait := time.Until(c.came.Add(s.delay))
		if !s.stall && (s.delay == 0 || wait <= 0) {
			return &s
		}
		var due <-chan time.Time // never, while stalled
		var timer *time.Timer
		if !s.stall {
			timer = time.NewTimer(wait)
			due = timer.C
		}
		select {
		case <-s.changed:
		case <-due:
		case <-x.ended:
			return nil
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// reset ends both halves without ceremony: the ends get a connection reset.
func (x *pair) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.isOver {
		return
	}
	x.isOver = true
	close(x.ended)
	hardClose(x.client)
	if x.server != nil {
		hardClose(x.server)
	}
}

// hardClose sends a reset in place of the polite end.
func hardClose(c *net.TCPConn) {
	_ = c.SetLinger(0)
	c.Close()
}
