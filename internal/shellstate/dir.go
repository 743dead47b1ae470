//go:build linux

package shellstate

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// UsableDir gives the directory a command starts in: dir, or the workspace
// when dir is gone, is no directory or may not be entered, with a notice that
// says so. An empty dir is the workspace, without a notice.
func UsableDir(dir, workspace string) (string, string) {
	if dir == "" || dir == workspace {
		return workspace, ""
	}
	why := "is gone"
	switch fi, err := os.Stat(dir); {
	case err == nil && !fi.IsDir():
		why = "is no directory any more"
	case err == nil:
		if err = unix.Access(dir, unix.X_OK); err == nil {
			return dir, ""
		}
		why = "can't be entered"
	case !os.IsNotExist(err):
		why = "can't be reached"
	}
	return workspace, fmt.Sprintf("the session's directory %.512q %s: the command starts in %s", dir, why, workspace)
}
