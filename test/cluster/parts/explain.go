//go:build linux

package parts

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// Of what the go command complains about this much is kept: the first lines,
// which name the cause.
const (
	complaintLines = 30
	complaintBytes = 1000 // of one line
)

// An output takes what the go command writes, line by line: names of packages
// and downloads for the progress, all else as complaints.
type output struct {
	job   *job
	part  []byte // of a line that has no end yet
	lines []string
}

func (o *output) Write(data []byte) (int, error) {
	o.part = append(o.part, data...)
	for {
		line, rest, ok := bytes.Cut(o.part, []byte("\n"))
		if !ok {
			break
		}
		o.line(string(line))
		o.part = rest
	}
	// No line of the go command is long; if one is, its end is not worth
	// the memory.
	o.part = o.part[:min(len(o.part), complaintBytes)]
	return len(data), nil
}

func (o *output) line(line string) {
	switch {
	case line == "":
	case strings.HasPrefix(line, "go: downloading ") || !strings.Contains(line, " "):
		o.job.heard(line)
	case len(o.lines) < complaintLines:
		o.lines = append(o.lines, line[:min(len(line), complaintBytes)])
	}
}

// complaints are the lines that are no progress.
func (o *output) complaints() []string {
	o.line(string(o.part))
	o.part = nil
	return o.lines
}

// A line about a module that could not be fetched: the module with its version,
// then what was tried.
var fetch = regexp.MustCompile(`(?:^|\s)([^\s"]+@v[^\s":]+): (.*(?:Get "|reading http|verifying |module lookup disabled|dial tcp|timeout|EOF).*)`)

// explain makes an error out of a go command that failed.
func (t goTool) explain(bin binary, err error, complaints []string) error {
	for _, line := range complaints {
		if found := fetch.FindStringSubmatch(line); found != nil {
			return fmt.Errorf("build %s: the module %s could not be fetched: %s (is the network up? modules come from GOPROXY, now %q; what was fetched so far is kept)",
				bin.name, found[1], found[2], t.proxy)
		}
	}
	if len(complaints) == 0 {
		return fmt.Errorf("build %s: go build: %w", bin.name, err)
	}
	return fmt.Errorf("build %s: go build: %w:\n\t%s", bin.name, err, strings.Join(complaints, "\n\t"))
}
