package shellstate

import (
	"bytes"
	"regexp"
	"strings"
)

// attributes is how bash prints those of a function, below its body.
var attributes = regexp.MustCompile(`(?m)^}\ndeclare -f[a-z]+ \S+\n`)

// functions gives all without our own trap function and without readonly
// marks.
func functions(all, trap []byte) []byte {
	if bytes.Contains(trap, []byte(trapMark)) {
		all = bytes.Replace(all, trap, nil, 1)
	}
	return attributes.ReplaceAllFunc(all, func(m []byte) []byte {
		flags, name, _ := strings.Cut(strings.TrimPrefix(string(m), "}\ndeclare -f"), " ")
		flags = strings.ReplaceAll(flags, "r", "")
		if flags == "" {
			return []byte("}\n")
		}
		return []byte("}\ndeclare -f" + flags + " " + name)
	})
}

// exportMark is how bash prints that a function is exported, below its body.
var exportMark = regexp.MustCompile(`(?m)^}\ndeclare -f[a-z]*x[a-z]* (\S+)$`)

// exportedFunctions gives exported functions as variables, in the form in
// which bash takes them from its environment, for programs of the session that
// are not started by its shell. One that can't be found by its heading, or is
// too large for a variable, is left out.
func exportedFunctions(all []byte) []string {
	var out []string
	total := 0
	for _, m := range exportMark.FindAllSubmatchIndex(all, -1) {
		name := string(all[m[2]:m[3]])
		head := "\n" + name + " () \n{"
		i := strings.LastIndex("\n"+string(all[:m[0]]), head)
		if i < 0 {
			continue
		}
		body := all[i+len(head)-2 : m[0]+1] // from the brace to the brace
		kv := "BASH_FUNC_" + name + "%%=() " + string(body)
		if len(kv) > MaxVarBytes || total+len(kv)+1 > MaxEnvBytes/2 {
			continue
		}
		total += len(kv) + 1
		out = append(out, kv)
	}
	return out
}

// isFunction says whether a variable's name is that of an exported function.
func isFunction(name string) bool {
	return strings.HasPrefix(name, "BASH_FUNC_") && strings.HasSuffix(name, "%%")
}
