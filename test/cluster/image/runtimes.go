//go:build linux

package image

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// keyDigits of a hash name a folder of the cache: 80 bits.
const keyDigits = 20

//go:embed runtimes.go
var runtimesSource string

//go:embed debian.go
var debianSource string

//go:embed recipe.go
var recipeSource string

//go:embed rootfs.go
var rootfsSource string

//go:embed layer.go
var layerSource string

//go:embed oci.go
var ociSource string

// makers is the code that decides what an image becomes of the same input. It
// is part of every key, so that no change of it goes unnoticed.
var makers = runtimesSource + debianSource + recipeSource + rootfsSource + layerSource + ociSource

// runtimes makes the images of the recipe, as layers that lie on each other:
// each image has those of the one before it and one more.
func (b *builder) runtimes(ctx context.Context) ([]Image, error) {
	r, err := readRecipe(b.root)
	if err != nil {
		return nil, err
	}
	debian := debianPackages{suite: r.Suite, sources: sources(aptFolder, r.Suite), log: b.log}
	for _, image := range r.Images {
		debian.stages = append(debian.stages, image.Packages)
	}
	asked, err := json.Marshal([]any{r, debian.sources, arch, makers})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(asked)
	return b.ensure(ctx, "runtime", hex.EncodeToString(sum[:])[:keyDigits], func(work string) ([]Image, error) {
		begun := time.Now()
		b.log.printf("runtime: build bash, python and node from Debian packages; it takes a minute or two, once")
		stages, err := debian.install(ctx, work)
		if err != nil {
			return nil, err
		}
		images, err := r.layered(stages, begun, work)
		if err != nil {
			return nil, err
		}
		out, err := writeArchive(filepath.Join(work, "runtime.oci.tar"), images)
		if err == nil {
			b.log.printf("runtime: built in %.0f s", time.Since(begun).Seconds())
		}
		return out, err
	})
}

// layered makes one image of each root file system, the layers of which are in
// work.
func (r *recipe) layered(stages []string, begun time.Time, work string) ([]named, error) {
	var (
		images []named
		layers []v1.Layer
		lower  = tree{}
	)
	for i, stage := range stages {
		file, err := os.Open(stage)
		if err != nil {
			return nil, err
		}
		defer file.Close() // not before the next one is compared with it
		t, err := readRootfs(file, begun.Truncate(time.Second))
		if err != nil {
			return nil, fmt.Errorf("read the root file system of %s: %w", r.Images[i].Name, err)
		}
		t.prune()
		if err := r.settle(t); err != nil {
			return nil, fmt.Errorf("root file system of %s: %w", r.Images[i].Name, err)
		}
		layer, err := t.over(lower).writeLayer(filepath.Join(work, strconv.Itoa(i)+".layer"))
		if err != nil {
			return nil, err
		}
		layers, lower = append(layers, layer), t
		img, err := newImage(r.config(i), layers...)
		if err != nil {
			return nil, err
		}
		images = append(images, named{r.name(i), img})
	}
	return images, nil
}
