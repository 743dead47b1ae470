//go:build linux

package image

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// recipeFile says what the runtime images are made of. The Dockerfiles beside
// it, which make those that are published, say the same, and a test holds them
// to it.
const recipeFile = "images/runtime.json"

// A recipe is the runtime images, each of which contains those before it: the
// last one has every language.
type recipe struct {
	Suite string `json:"suite"` // of Debian
	User  struct {
		Name string `json:"name"`
		UID  int    `json:"uid"`
		GID  int    `json:"gid"`
	} `json:"user"`
	Home    string `json:"home"`
	Workdir string `json:"workdir"`
	// Writable are folders for whatever user a container runs as.
	Writable []string          `json:"writable"`
	Env      map[string]string `json:"env"`
	Images   []runtimeImage    `json:"images"`
}

type runtimeImage struct {
	Name     string   `json:"name"`
	Tag      string   `json:"tag"` // the version of its language
	Packages []string `json:"packages"`
	// Published are packages that only the published image has: they are of
	// no use without a network.
	Published []string          `json:"published,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Command   []string          `json:"command"`
}

// What becomes part of a command line or of a name has to be as plain as this.
var (
	plainName   = regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]*$`)
	plainFolder = regexp.MustCompile(`^(/[a-z0-9]+)+$`)
)

func readRecipe(root string) (*recipe, error) {
	data, err := os.ReadFile(filepath.Join(root, recipeFile))
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	r := &recipe{}
	if err := decoder.Decode(r); err != nil {
		return nil, fmt.Errorf("read %s: %w", recipeFile, err)
	}
	names := []string{r.Suite, r.User.Name}
	for _, image := range r.Images {
		names = append(append(names, image.Name, image.Tag), image.Packages...)
	}
	for _, name := range names {
		if !plainName.MatchString(name) {
			return nil, fmt.Errorf("%s: %q is no name of a suite, a user, an image or a package", recipeFile, name)
		}
	}
	for _, folder := range append([]string{r.Home, r.Workdir}, r.Writable...) {
		if !plainFolder.MatchString(folder) {
			return nil, fmt.Errorf("%s: %q is no absolute path of plain names", recipeFile, folder)
		}
	}
	return r, nil
}

// name is what the i-th image is called on a node.
func (r *recipe) name(i int) string { return repository + r.Images[i].Name + ":" + r.Images[i].Tag }

// env is the environment of the i-th image.
func (r *recipe) env(i int) map[string]string {
	env := maps.Clone(r.Env)
	for _, image := range r.Images[:i+1] {
		maps.Copy(env, image.Env)
	}
	return env
}

// packages are those of the i-th image, sorted.
func (r *recipe) packages(i int) []string {
	var all []string
	for _, image := range r.Images[:i+1] {
		all = append(all, image.Packages...)
	}
	slices.Sort(all)
	return all
}

// user is who containers run as unless they are told otherwise: in numbers, so
// that a node can see that it is not root.
func (r *recipe) user() string { return strconv.Itoa(r.User.UID) + ":" + strconv.Itoa(r.User.GID) }

func (r *recipe) config(i int) v1.Config {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(r.env(i))) {
		env = append(env, name+"="+r.env(i)[name])
	}
	return v1.Config{User: r.user(), WorkingDir: r.Workdir, Env: env, Cmd: r.Images[i].Command}
}

// settle adds the user and the folders to a root file system.
func (r *recipe) settle(t tree) error {
	uid, gid := strconv.Itoa(r.User.UID), strconv.Itoa(r.User.GID)
	for file, line := range map[string]string{
		"etc/passwd": strings.Join([]string{r.User.Name, "x", uid, gid, "", r.Home, "/bin/bash"}, ":"),
		"etc/group":  strings.Join([]string{r.User.Name, "x", gid, ""}, ":"),
	} {
		old, ok := t[file]
		if !ok {
			return fmt.Errorf("there is no /%s", file)
		}
		data := make([]byte, old.header.Size)
		if _, err := old.content.ReadAt(data, old.offset); err != nil {
			return err
		}
		t[file] = fileOf(append(data, line+"\n"...), 0o644)
	}
	for _, folder := range r.Writable {
		folder = folder[1:]
		for parent := path.Dir(folder); parent != "."; parent = path.Dir(parent) {
			if _, ok := t[parent]; !ok {
				t[parent] = folderOf(0o755)
			}
		}
		t[folder] = folderOf(0o1777)
	}
	return nil
}
