package skerry

import "time"

// FileType is what a path is.
type FileType string

const (
	RegularFile  FileType = "file"
	Directory    FileType = "directory"
	SymbolicLink FileType = "symlink"
	OtherFile    FileType = "other" // device, FIFO, socket
)

// words names t with no article.
func (t FileType) words() string {
	switch t {
	case SymbolicLink:
		return "symbolic link"
	case OtherFile:
		return "device, pipe or socket"
	}
	return string(t)
}

// FileInfo is what is known of one path.
type FileInfo struct {
	Path     string // as asked for, or relative to the folder that was listed
	Type     FileType
	Size     int64  // bytes of a regular file, else 0
	Mode     uint32 // permission bits
	Modified time.Time
	Target   string // of a link
	SHA256   string // lower-case hexadecimal, where the operation computes it (Read of a whole file, Write)
}

// WriteOptions say how a file is written.
type WriteOptions struct {
	Mode   uint32 // permission bits; 0 is 0644
	Create bool   // fail with Conflict when the file exists
}

// ListOptions say what List gives.
type ListOptions struct {
	Recursive bool
	Limit     int // 0 is the default of 10,000; more entries are an error of kind Busy with what to do
}

// GlobResult is what Glob found.
type GlobResult struct {
	Paths     []string // relative to the folder searched
	Truncated bool     // there are more than the limit
}

// GrepSpec is what to search for.
type GrepSpec struct {
	Pattern    string // RE2, or plain text with Literal
	Literal    bool
	IgnoreCase bool
	Dir        string // "" is the workspace
	Glob       string // only files whose path below Dir matches; "" is all
	Limit      int    // matches; 0 is the default of 1,000
}

// GrepMatch is one line that matched.
type GrepMatch struct {
	Path string // relative to the folder searched
	Line int    // from 1
	Text string // the line without its end, at most 4 KiB of it
}

// GrepResult is what Grep found. Files with a NUL in their first 8 KiB are
// binary, and skipped.
type GrepResult struct {
	Matches   []GrepMatch
	Truncated bool // there are more than the limit
}

// TarResult counts what a tar stream brought.
type TarResult struct {
	Files   int64
	Bytes   int64
	Skipped []string // entries left out, each with why; at most 100
}
