package attach

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// What passes the checks is fit to be shown and to be acted on.
func FuzzAnswers(f *testing.F) {
	info := &pb.CommandInfo{Id: "1", StartedUnixMs: 1, Exit: exited(3, []byte("x"), nil)}
	info.Exit.Reason, info.Exit.Notices = "why\x1b[2J", []string{"\u009b"}
	for _, m := range []proto.Message{info, info.Exit, &pb.CommandInfo{}, &pb.Exit{Outcome: "signaled", Signal: 9},
		&pb.FileInfo{Path: []byte("a/b"), Type: "file", Size: 3, Mode: 0o644}, &pb.FileInfo{Path: []byte("../x"), Type: "symlink", Target: []byte("/")}} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var e pb.Exit
		if proto.Unmarshal(data, &e) == nil {
			if got, err := exit("test", &e, time.Now()); err == nil {
				checkExit(t, got)
			}
		}
		var c pb.CommandInfo
		if proto.Unmarshal(data, &c) == nil {
			if got, err := commandInfo("test", &c, time.Time{}); err == nil {
				if skerry.ValidateName("id", got.ID) != nil || got.Started.Year() > 9999 || got.PID < 0 {
					t.Errorf("passed: %+v", got)
				}
				if got.Exit != nil {
					checkExit(t, *got.Exit)
				}
			}
		}
		var i pb.FileInfo
		if proto.Unmarshal(data, &i) == nil {
			got, err := fileInfo("test", &i)
			if err == nil && (got.Size < 0 || got.Mode > 0o7777 || got.SHA256 != "" && len(got.SHA256) != 64) {
				t.Errorf("passed: %+v", got)
			}
			if checkBelow("test", got.Path) == nil && (strings.HasPrefix(got.Path, "/") || strings.Contains("/"+got.Path+"/", "/../") || strings.ContainsRune(got.Path, 0)) {
				t.Errorf("path %q passed", got.Path)
			}
		}
	})
}

func checkExit(t *testing.T, e skerry.Exit) {
	t.Helper()
	if (e.ExitCode != nil) != (e.Outcome == skerry.Exited) || (e.Signal != 0) != (e.Outcome == skerry.Signaled) || !e.Outcome.Valid() ||
		e.Outcome == skerry.Lost || e.Duration < 0 || e.Usage.CPUSeconds < -1 || e.Usage.CPUSeconds != e.Usage.CPUSeconds {
		t.Errorf("passed: %+v", e)
	}
	for _, s := range append(e.Notices, e.Reason) {
		if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 && r != '\t' || r >= 0x7f && r < 0xa0 }) {
			t.Errorf("text %q passed", s)
		}
	}
}
