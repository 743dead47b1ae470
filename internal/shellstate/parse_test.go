package shellstate

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const testNonce = "0123456789abcdef0123456789abcdef"

// frameOf is a frame as the shell writes it.
func frameOf(f [sections]string) string {
	body := strings.Join(f[:], "\x00") + "\x00"
	return "\x00skerry-begin " + testNonce + "\x00" + body + body + "skerry-end " + testNonce + "\x00"
}

func goodFields() [sections]string {
	return [sections]string{
		secDir:       "/w\n",
		secBashopts:  "checkwinsize:extglob",
		secUmask:     "0022\n",
		secAlias:     "alias a='b'\n",
		secFunctions: "f () \n{ \n    echo\n}\ndeclare -fx f\n",
		secExport:    "declare -x A=\"1\"\ndeclare -x PATH=\"/bin\"\n",
	}
}

func TestParse(t *testing.T) {
	good := frameOf(goodFields())
	with := func(section int, s string) string {
		f := goodFields()
		f[section] = s
		return frameOf(f)
	}
	for _, c := range []struct {
		name, frame string
		want        error // nil: the good state
	}{
		{"whole", good, nil},
		{"junk around", "junk\x00\x00skerry-begin x" + good + "\x00junk", nil},
		{"the last of two", with(secDir, "/other\n") + good, nil},
		{"a whole one and half of another", good + good[:len(good)/2], nil},
		{"empty", "", ErrNoFrame},
		{"cut", good[:len(good)-1], ErrNoFrame},
		{"no begin", good[10:], ErrNoFrame},
		{"junk inside", strings.Replace(good, "/bin", "/bin:junk", 1), ErrNoFrame},
		{"a section more", strings.ReplaceAll(good, "checkwinsize:", "checkwinsize\x00"), ErrNoFrame},
		{"relative directory", with(secDir, "w\n"), ErrNoFrame},
		{"directory without end", with(secDir, "/w"), ErrNoFrame},
		{"no umask", with(secUmask, "\n"), ErrNoFrame},
		{"umask that is a command", with(secUmask, "7;ls\n"), ErrNoFrame},
		{"option that is a command", with(secBashopts, "a;ls"), ErrNoFrame},
		{"export that is none", with(secExport, "junk\n"), ErrNoFrame},
		{"name that is none", with(secExport, "declare -x A-B=\"1\"\n"), ErrNoFrame},
		{"value without end", with(secExport, "declare -x A=\"1\n"), ErrNoFrame},
		{"too large", with(secAlias, strings.Repeat("x", MaxFrameBytes)), ErrTooLarge},
		{"too large, and its beginning cut off", with(secAlias, strings.Repeat("x", 2*MaxFrameBytes))[2*MaxFrameBytes:], ErrTooLarge},
		{"too large to be read whole", with(secAlias, strings.Repeat("x", 2*MaxFrameBytes))[:2*MaxFrameBytes+1000], ErrTooLarge},
	} {
		st, err := Parse([]byte(c.frame), testNonce)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
		if err == nil && (st.Dir != "/w" || !slices.Equal(st.Env, []string{"A=1", "PATH=/bin", "BASH_FUNC_f%%=() { \n    echo\n}"})) {
			t.Errorf("%s: %+v", c.name, st)
		}
	}
	for _, nonce := range []string{"", "short", testNonce + "{", testNonce + "[1]"} {
		if _, err := Parse([]byte(good), nonce); err == nil {
			t.Errorf("the nonce %q was taken", nonce)
		}
	}
}

func TestParseExports(t *testing.T) {
	for _, c := range []struct {
		text string
		want []variable // nil: refused
	}{
		{"", []variable{}},
		{"declare -x A=\"\"\n", []variable{{"A", ""}}},
		{"declare -x A=\"a\nb\"\ndeclare -irx B=\"2\"\n", []variable{{"A", "a\nb"}, {"B", "2"}}},
		{`declare -x A="\"\$\` + "`" + `\\\x"` + "\n", []variable{{"A", "\"$`\\\\x"}}},
		{`declare -x A=$'\001\377\n\t\'\\\E'` + "\n", []variable{{"A", "\x01\xff\n\t'\\\x1b"}}},
		{"declare -x A\ndeclare -x B=\"1\"\n", []variable{{"B", "1"}}},
		{"declare -ax A=([0]=\")\" [1]=$'\\n)')\ndeclare -Ax B=([\"k)\"]=\"v\" )\ndeclare -x C=\"1\"\n", []variable{{"C", "1"}}},
		{"declare -x A=1\n", nil},
		{"declare -x A=\"1\"", nil},
		{"declare -x A=\"1\"x\n", nil},
		{"declare -x 1A=\"1\"\n", nil},
		{"declare -x =\"1\"\n", nil},
		{"declare -; A=\"1\"\n", nil},
		{"export A=\"1\"\n", nil},
		{"declare -x A=$'\\000'\n", nil},
		{"declare -x A=$'\\q'\n", nil},
		{"declare -ax A=(\"\n", nil},
		{"declare -ax A=(\n", nil},
		{"declare -ax A=1\n", nil},
	} {
		got, err := parseExports([]byte(c.text))
		if (err == nil) != (c.want != nil) || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, %v; want %q", c.text, got, err, c.want)
		}
	}
}

func TestMayTrap(t *testing.T) {
	for text, want := range map[string]bool{
		"trap 'x' EXIT": true, "a;trap x 0": true, ". ./lib": true, "x && . lib": true, "\\. lib": true, "source x": true, "eval \"$x\"": true,
		"echo a.b c": false, "ls .": false, "sourcepath": false, "mytrap": false, "echo done. Next": false, "": false, ".": false,
	} {
		if got := mayTrap([]byte(text)); got != want {
			t.Errorf("mayTrap(%q) = %v", text, got)
		}
	}
}

func TestPrepareNamesWhatIsTooLarge(t *testing.T) {
	st := State{Dir: "/w", Env: []string{"PATH=/bin"}, Dropped: []string{"OLD"}}
	for i := range 30 {
		st.Env = append(st.Env, fmt.Sprintf("B%02d=%s", i, strings.Repeat("x", MaxVarBytes)))
	}
	inv, notices, err := Prepare(st, []byte("true"), nil)
	if err != nil || len(notices) != 2 || !strings.Contains(notices[0], "OLD") || !strings.Contains(notices[1], "B00") || !strings.Contains(notices[1], "10 more") {
		t.Errorf("notices %q, %v", notices, err)
	}
	if !slices.Equal(inv.Env, []string{"PATH=/bin", "PWD=/w"}) {
		t.Errorf("environment %q", inv.Env)
	}
}

// What Parse takes is a state that the next command can start from.
func FuzzParse(f *testing.F) {
	seed := func(f0 [sections]string) string { return frameOf(f0) }
	f.Add([]byte(seed(goodFields())))
	odd := goodFields()
	odd[secExport] = "declare -ax A=([0]=\"1\" [1]=$'\\n')\ndeclare -x B=$'\\001\\'\\\\'\ndeclare -rx C\ndeclare -ix D=\"a\\\"\\$\n\"\n"
	odd[secPosix] = "rx:y"
	f.Add([]byte(seed(odd)))
	f.Add([]byte("junk" + seed(odd) + seed(goodFields())[:100]))
	cut := seed(goodFields())
	for _, n := range []int{0, 1, 40, 60, len(cut) / 2, len(cut) - 2} {
		f.Add([]byte(cut[:n]))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		check := func(st State, err error) {
			if err != nil {
				if st.Dir != "" || st.Env != nil || st.Text != nil {
					t.Fatalf("an error and a state: %v, %+v", err, st)
				}
				return
			}
			if !filepath.IsAbs(st.Dir) || strings.ContainsRune(st.Dir, 0) {
				t.Fatalf("directory %q", st.Dir)
			}
			if strings.ContainsRune(string(st.Text), 0) {
				t.Fatalf("the text holds NUL")
			}
			total := 0
			for _, kv := range st.Env {
				name, _, ok := strings.Cut(kv, "=")
				total += len(kv) + 1
				if !ok || strings.ContainsRune(kv, 0) || len(kv) > MaxVarBytes || !isName(name) && (!isFunction(name) || strings.ContainsFunc(name, unicode.IsSpace)) {
					t.Fatalf("variable %q", kv)
				}
			}
			if total > 2*MaxEnvBytes {
				t.Fatalf("the environment has %d bytes", total)
			}
			if _, _, err := Prepare(st, []byte("true"), nil); err != nil {
				t.Fatalf("prepare: %v", err)
			}
		}
		check(Parse(frame, testNonce))
		// The same bytes as the sections of a frame that is whole.
		fields := goodFields()
		for i, s := range strings.SplitN(string(frame), "\x00", sections) {
			fields[i] = strings.ReplaceAll(s, "\x00", "")
		}
		check(Parse([]byte(frameOf(fields)), testNonce))
		if vars, err := parseExports(frame); err == nil {
			for _, v := range vars {
				if !isName(v.name) {
					t.Fatalf("name %q", v.name)
				}
			}
		}
	})
}
