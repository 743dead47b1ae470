//go:build unix

package config

import (
	"io/fs"
	"os"
	"syscall"

	"github.com/skerry-run/skerry"
)

var homeVariables = []string{"HOME"}

func checkOwner(path string, info fs.FileInfo) error {
	const worldWritable = 0o002
	if info.Mode().Perm()&worldWritable != 0 {
		return skerry.Errorf(skerry.Denied, "configuration", "%s can be written by everybody", path).WithHint("chmod o-w %s", path)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return skerry.Errorf(skerry.Internal, "configuration", "the owner of %s is not known", path)
	}
	if uid := int(stat.Uid); uid != 0 && uid != os.Geteuid() {
		return skerry.Errorf(skerry.Denied, "configuration", "%s belongs to another user (uid %d)", path, uid).WithHint("it must belong to you or to root")
	}
	return nil
}
