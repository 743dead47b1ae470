//go:build linux

package seccompbpf

import (
	"runtime"
	"testing"
)

func TestThereIsAProgramForThisMachine(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip(runtime.GOARCH)
	}
	p, err := Standard()
	const size = 8 // of struct sock_filter
	if err != nil || len(p) == 0 || len(p)%size != 0 {
		t.Errorf("%d bytes, %v", len(p), err)
	}
}
