//go:build linux

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateLife is far longer than any cluster lives.
const certificateLife = 10 * 365 * 24 * time.Hour

// An authority signs certificates and keeps them in one folder, as NAME.crt
// and NAME.key.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// newAuthority makes an authority with a key of its own and writes its
// certificate as NAME.crt, its key as NAME.key.
func newAuthority(dir, name string) (*authority, error) {
	a := &authority{dir: dir}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "skerry cluster " + name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	var err error
	if a.cert, a.key, a.pem, _, err = a.make(name, template); err != nil {
		return nil, err
	}
	return a, nil
}

// A pair is a certificate and its key, in PEM.
type pair struct{ cert, key []byte }

// client signs a certificate for a client of that name in those groups.
func (a *authority) client(file, name string, groups ...string) (pair, error) {
	_, _, cert, key, err := a.make(file, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return pair{cert, key}, err
}

// server signs a certificate for a server that is reached by those names and
// addresses.
func (a *authority) server(file, name string, names []string, addresses ...net.IP) error {
	_, _, _, _, err := a.make(file, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    names,
		IPAddresses: addresses,
	})
	return err
}

// make signs template, or has it sign itself while the authority has no
// certificate yet, and writes both files.
func (a *authority) make(file string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, []byte, []byte, error) {
	fail := func(err error) (*x509.Certificate, *ecdsa.PrivateKey, []byte, []byte, error) {
		return nil, nil, nil, nil, fmt.Errorf("make certificate %s: %w", file, err)
	}
	key, keyPEM, err := newKey()
	if err != nil {
		return fail(err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fail(err)
	}
	template.SerialNumber = serial
	// A clock that is set back a little must not make it invalid.
	template.NotBefore = time.Now().Add(-24 * time.Hour)
	template.NotAfter = time.Now().Add(certificateLife)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return fail(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return fail(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(filepath.Join(a.dir, file+".crt"), certPEM, 0o644); err != nil {
		return fail(err)
	}
	if err := os.WriteFile(filepath.Join(a.dir, file+".key"), keyPEM, 0o600); err != nil {
		return fail(err)
	}
	return cert, key, certPEM, keyPEM, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// writeTokenKeys makes the key pair that service account tokens are signed
// and checked with: NAME.key and NAME.pub.
func writeTokenKeys(dir, name string) error {
	key, keyPEM, err := newKey()
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name+".key"), keyPEM, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o644)
}
