//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// arch is the architecture of the node, which is this machine.
const arch = runtime.GOARCH

// nameAnnotation is where containerd looks for the name of an image in an
// archive; the annotation of the specification has only room for a tag.
const nameAnnotation = "io.containerd.image.name"

// newImage joins layers, the lowest first, and a configuration.
func newImage(config v1.Config, layers ...v1.Layer) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.AppendLayers(img, layers...)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS, file.Config = arch, "linux", config
	file.Created = v1.Time{Time: epoch}
	for i := range file.History {
		file.History[i] = v1.History{Created: v1.Time{Time: epoch}}
	}
	return mutate.ConfigFile(img, file)
}

// A named image is what an archive holds.
type named struct {
	name  string
	image v1.Image
}

func pinned(name, digest string) string {
	// The tag is behind the last colon: the names here have no port.
	repository, _, _ := strings.Cut(name, ":")
	return repository + "@" + digest
}

// writeArchive writes an OCI layout with the images as a tar file. Each is in
// the index under its name and under its pinned name. What images share is in
// it once.
func writeArchive(path string, images []named) ([]Image, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	a := archive{tar: tar.NewWriter(file), has: map[string]bool{}}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	var out []Image
	for _, n := range images {
		digest, err := a.image(n.image)
		if err != nil {
			return nil, err
		}
		manifest, err := n.image.RawManifest()
		if err != nil {
			return nil, err
		}
		image := Image{Name: n.name, Path: path, Digest: digest.String()}
		for _, name := range []string{image.Name, image.Pinned()} {
			index.Manifests = append(index.Manifests, v1.Descriptor{
				MediaType:   types.OCIManifestSchema1,
				Size:        int64(len(manifest)),
				Digest:      digest,
				Platform:    &v1.Platform{OS: "linux", Architecture: arch},
				Annotations: map[string]string{nameAnnotation: name},
			})
		}
		out = append(out, image)
	}
	data, err := json.Marshal(index)
	if err != nil {
		return nil, err
	}
	if err := a.bytes("index.json", data); err != nil {
		return nil, err
	}
	if err := a.bytes("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return nil, err
	}
	if err := a.tar.Close(); err != nil {
		return nil, err
	}
	return out, file.Close()
}

// An archive is a tar file of blobs, each once.
type archive struct {
	tar *tar.Writer
	has map[string]bool
}

func (a *archive) image(img v1.Image) (v1.Hash, error) {
	layers, err := img.Layers()
	if err != nil {
		return v1.Hash{}, err
	}
	for _, layer := range layers {
		if err := a.layer(layer); err != nil {
			return v1.Hash{}, err
		}
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return v1.Hash{}, err
	}
	manifest, err := img.RawManifest()
	if err != nil {
		return v1.Hash{}, err
	}
	name, err := img.ConfigName()
	if err != nil {
		return v1.Hash{}, err
	}
	digest, err := img.Digest()
	if err != nil {
		return v1.Hash{}, err
	}
	if err := a.bytes(blob(name), config); err != nil {
		return v1.Hash{}, err
	}
	return digest, a.bytes(blob(digest), manifest)
}

func (a *archive) layer(layer v1.Layer) error {
	digest, err := layer.Digest()
	if err != nil {
		return err
	}
	size, err := layer.Size()
	if err != nil {
		return err
	}
	content, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer content.Close()
	return a.add(blob(digest), size, content)
}

func (a *archive) bytes(name string, data []byte) error {
	return a.add(name, int64(len(data)), bytes.NewReader(data))
}

func (a *archive) add(name string, size int64, content io.Reader) error {
	if a.has[name] {
		return nil
	}
	a.has[name] = true
	if err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o444, ModTime: epoch}); err != nil {
		return err
	}
	_, err := io.Copy(a.tar, content)
	return err
}

func blob(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
