package verify

import (
	"encoding/json"
	"testing"
)

func TestOnlyBlockedPasses(t *testing.T) {
	line := func(s Status) Line { return Line{Name: "x", Status: s} }
	for _, c := range []struct {
		lines []Line
		want  bool
	}{
		{nil, false},
		{[]Line{line(NotTested)}, false},
		{[]Line{line(Blocked)}, true},
		{[]Line{line(Blocked), line(NotTested)}, true},
		{[]Line{line(Blocked), line(Unknown)}, false},
		{[]Line{line(Blocked), line(Open)}, false},
		{[]Line{line("")}, false},
	} {
		if got := Passed(c.lines); got != c.want {
			t.Errorf("%v: passed %v, want %v", c.lines, got, c.want)
		}
	}
}

func TestLinesAsJSON(t *testing.T) {
	for status, want := range map[Status]string{Blocked: `true`, Open: `false`, Unknown: `"unknown"`, NotTested: `"not_tested"`} {
		data, err := json.Marshal(Line{Name: "a", Status: status, Tried: "b", Detail: "c"})
		if err != nil {
			t.Fatal(err)
		}
		if got := `{"name":"a","blocked":` + want + `,"tried":"b","detail":"c"}`; string(data) != got {
			t.Errorf("%s, want %s", data, got)
		}
	}
}
