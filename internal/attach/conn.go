package attach

import (
	"net"
	"sync"
	"sync/atomic"
)

// watchedConn counts what arrives and tells when it was closed, by either end:
// gRPC closes its connection as soon as a read or a write fails.
type watchedConn struct {
	net.Conn
	received atomic.Int64
	once     sync.Once
	gone     chan struct{} // closed with the connection
}

func watch(c net.Conn) *watchedConn {
	return &watchedConn{Conn: c, gone: make(chan struct{})}
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

func (c *watchedConn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		err = c.Conn.Close()
		close(c.gone)
	})
	return err
}
