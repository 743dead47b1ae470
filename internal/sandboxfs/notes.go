package sandboxfs

import "fmt"

// maxSkipped bounds the notes of one TarResult.
const maxSkipped = 100

// notes are the entries that a tar stream leaves out, each with why. The list
// is bounded, and its last line says how many more there are.
type notes struct {
	lines []string
	count int
}

func (n *notes) add(path, why string) {
	if n.count++; n.count <= maxSkipped {
		n.lines = append(n.lines, quoted(path)+": "+why)
	}
}

// quoted gives a path in quotes, and of a long one the start: each byte may
// take four in quotes.
func quoted(path string) string {
	const most = 500
	if len(path) > most {
		return fmt.Sprintf("%q…", path[:most])
	}
	return fmt.Sprintf("%q", path)
}

func (n *notes) list() []string {
	if n.count > maxSkipped {
		n.lines[maxSkipped-1] = fmt.Sprintf("and %d more", n.count-maxSkipped+1)
	}
	return n.lines
}
