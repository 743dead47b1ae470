//go:build linux

package image

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// An instruction of a Dockerfile: its name and what follows, on one line.
type instruction struct{ name, text string }

func readDockerfile(t *testing.T, path string) []instruction {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []instruction
	var open string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		open += line
		if rest, ok := strings.CutSuffix(open, `\`); ok {
			open = rest
			continue
		}
		name, text, ok := strings.Cut(open, " ")
		if !ok {
			t.Fatalf("%s: %q is no instruction", path, open)
		}
		out = append(out, instruction{name, strings.TrimSpace(text)})
		open = ""
	}
	if open != "" {
		t.Fatalf("%s ends within an instruction: %q", path, open)
	}
	return out
}

// the gives the one instruction of that name.
func the(t *testing.T, all []instruction, name string) string {
	var found []string
	for _, i := range all {
		if i.name == name {
			found = append(found, i.text)
		}
	}
	if len(found) != 1 {
		t.Fatalf("there are %d %s, want one", len(found), name)
	}
	return found[0]
}

func TestDockerfilesSayWhatTheRecipeSays(t *testing.T) {
	root, err := checkout("")
	if err != nil {
		t.Fatal(err)
	}
	r, err := readRecipe(root)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "images", "*.Dockerfile"))
	if err != nil || len(files) != len(r.Images) {
		t.Fatalf("the Dockerfiles are %q, %v, want one for each of %d images", files, err, len(r.Images))
	}
	for i, image := range r.Images {
		t.Run(image.Name, func(t *testing.T) {
			all := readDockerfile(t, filepath.Join(root, "images", image.Name+".Dockerfile"))
			var order []string
			for _, i := range all {
				order = append(order, i.name)
			}
			if want := []string{"ARG", "FROM", "RUN", "ENV", "WORKDIR", "USER", "CMD"}; !slices.Equal(order, want) {
				t.Fatalf("the instructions are %q, want %q", order, want)
			}
			if got, want := the(t, all, "ARG"), "BASE=debian:"+r.Suite+"-slim"; got != want {
				t.Errorf("the base is %q, want %q", got, want)
			}
			env := map[string]string{}
			for pair := range strings.FieldsSeq(the(t, all, "ENV")) {
				name, value, _ := strings.Cut(pair, "=")
				env[name] = value
			}
			if want := r.env(i); !maps.Equal(env, want) {
				t.Errorf("the environment is %q, want %q", env, want)
			}
			if got := the(t, all, "WORKDIR"); got != r.Workdir {
				t.Errorf("the working directory is %q, want %q", got, r.Workdir)
			}
			if got := the(t, all, "USER"); got != r.user() {
				t.Errorf("the user is %q, want %q", got, r.user())
			}
			var command []string
			if err := json.Unmarshal([]byte(the(t, all, "CMD")), &command); err != nil || !slices.Equal(command, image.Command) {
				t.Errorf("the command is %q, %v, want %q", command, err, image.Command)
			}
			checkScript(t, r, i, the(t, all, "RUN"))
		})
	}
}

var installs = regexp.MustCompile(`apt-get install --yes --no-install-recommends +([^&]+?) +&&`)

func checkScript(t *testing.T, r *recipe, i int, script string) {
	found := installs.FindStringSubmatch(script)
	if found == nil {
		t.Fatalf("no packages are installed: %s", script)
	}
	packages := strings.Fields(found[1])
	slices.Sort(packages)
	want := append(r.packages(i), r.Images[i].Published...)
	slices.Sort(want)
	if !slices.Equal(packages, want) {
		t.Errorf("the packages are %q, want %q", packages, want)
	}
	uid, gid, user := strconv.Itoa(r.User.UID), strconv.Itoa(r.User.GID), r.User.Name
	for _, part := range []string{
		"groupadd --gid " + gid + " " + user + " ",
		"useradd --uid " + uid + " --gid " + gid + " --no-create-home --home-dir " + r.Home + " --shell /bin/bash " + user + " ",
		"install -d -m 1777 " + strings.Join(r.Writable, " ") + " ",
		"find / -xdev -type f -perm /6000 -exec chmod a-s {} +",
		"rm -rf /var/lib/apt/lists/*",
	} {
		if !strings.Contains(script, part) {
			t.Errorf("%q is missing in %q", part, script)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", script).CombinedOutput(); err != nil {
		t.Errorf("it is no shell script: %v: %s", err, out)
	}
}
