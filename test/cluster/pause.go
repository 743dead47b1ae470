//go:build linux

package cluster

import (
	"context"
	"net"
)

// importPause gives the node the image that every pod begins with, as soon as
// there is somebody to give it to.
func (b *boot) importPause(ctx context.Context) error {
	err := poll(ctx, "containerd to answer", func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", b.ContainerdSocket())
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	if err != nil {
		return err
	}
	return b.ImportImages(ctx, b.pause.Path)
}
