package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
)

// version is set when a release is built (-ldflags "-X main.version=v1.2.3").
var version string

type versionView struct {
	Version     string `json:"version"`
	Commit      string `json:"commit"`
	Go          string `json:"go"`
	Platform    string `json:"platform"`
	Init        string `json:"init"`         // path of skerry-init, "" where none was found
	InitVersion string `json:"init_version"` // what it says of itself
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the versions of skerry and of skerry-init", Args: wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := ownVersion()
			configured := ""
			if c, err := a.config(cmd); err == nil { // a broken configuration must not hide the version
				configured = c.Local.Init
			}
			v.Init = findInit(configured)
			if v.Init != "" {
				v.InitVersion = askInit(cmd.Context(), v.Init)
			}
			if v.Init != "" && v.InitVersion != linked() {
				a.words.note(fmt.Sprintf("%s is version %q and this is %q: build and install both together", v.Init, v.InitVersion, linked()))
			}
			if asJSON {
				return a.printJSON(v)
			}
			text := fmt.Sprintf("skerry %s (commit %s, %s, %s)\n", v.Version, v.Commit, v.Go, v.Platform)
			if v.Init != "" {
				text += fmt.Sprintf("skerry-init %s (%s)\n", oneLine(v.InitVersion), v.Init)
			}
			_, err := a.stdout.Write([]byte(text))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one object")
	return cmd
}

// linked is the version that the linker set in both programs.
func linked() string {
	if version == "" {
		return "devel"
	}
	return version
}

func ownVersion() versionView {
	v := versionView{Version: version, Commit: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok {
		if v.Version == "" {
			v.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				v.Commit = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				v.Commit += " with changes"
			}
		}
	}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = linked()
	}
	return v
}

// findInit looks for skerry-init where the settings say, beside this program,
// and on PATH.
func findInit(configured string) string {
	if configured != "" {
		return configured
	}
	if self, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(self); err == nil {
			self = resolved
		}
		beside := filepath.Join(filepath.Dir(self), "skerry-init")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside
		}
	}
	if found, err := exec.LookPath("skerry-init"); err == nil && filepath.IsAbs(found) {
		return found
	}
	return ""
}

// askInit gives the version that skerry-init tells, or why it tells none.
func askInit(ctx context.Context, path string) string {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "version").Output()
	if err != nil {
		return "unknown: " + skerry.Errorf(skerry.Unavailable, "run skerry-init", "%w", err).Error()
	}
	words := strings.Fields(strings.TrimPrefix(string(out), "skerry-init"))
	if len(words) == 0 {
		return "unknown"
	}
	return words[0]
}
