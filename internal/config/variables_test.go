package config

import (
	"os"
	"strings"
	"testing"
)

func TestUnknownVariables(t *testing.T) {
	for _, c := range []struct {
		environ []string
		want    string
	}{
		{nil, ""},
		{[]string{"SKERRY_MEMORY=1Gi", "SKERRY_CONFIG=x", "PATH=/bin", "skerry_x=1", "SKERRY=1"}, ""},
		{[]string{"SKERRY_MEMROY=1Gi"}, "no setting, so without effect: SKERRY_MEMROY (did you mean SKERRY_MEMORY?)"},
		{[]string{"SKERRY_CONFG=1"}, "no setting, so without effect: SKERRY_CONFG (did you mean SKERRY_CONFIG?)"},
		{[]string{"SKERRY_MEMROY="}, ""}, // empty counts as not set, as everywhere
		{[]string{"SKERRY_SOMETHING_ELSE=secret"}, "no setting, so without effect: SKERRY_SOMETHING_ELSE"},
		{[]string{"SKERRY_WXYZ5=1", "SKERRY_WXYZ3=1", "SKERRY_WXYZ1=1", "SKERRY_WXYZ2=1", "SKERRY_WXYZ4=1"}, "no setting, so without effect: SKERRY_WXYZ1, SKERRY_WXYZ2, SKERRY_WXYZ3 and 2 more"},
	} {
		if got := UnknownVariables(c.environ); got != c.want {
			t.Errorf("%q gave %q, want %q", c.environ, got, c.want)
		}
	}
}

func TestEverySettingIsExplained(t *testing.T) {
	for i := range settings {
		if about[settings[i].key] == "" {
			t.Errorf("%s has no words", settings[i].key)
		}
	}
	if len(about) != len(settings) {
		t.Errorf("%d settings and words for %d", len(settings), len(about))
	}
}

// The lists of the document are those of the program.
func TestTheDocumentListsEverySetting(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{Table(), TerminalTable()} {
		if !strings.Contains(string(text), "\n"+table+"\n") {
			t.Errorf("docs/cli.md lacks this table:\n%s", table)
		}
	}
}
