package apikey

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
)

func TestASealedSecretOpensWithThePrivateKeyAlone(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := parsePublicKey(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: bytes})))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := seal("mrk_secret", key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := rsa.DecryptOAEP(sha256.New(), nil, private, raw, []byte(secretLabel))
	if err != nil || string(opened) != "mrk_secret" {
		t.Errorf("%q, %v", opened, err)
	}
}

func TestRefusesKeysThatCannotProtectASecret(t *testing.T) {
	weak := "-----BEGIN RSA PUBLIC KEY-----\nMEgCQQC9FMkDUVdzCfM8pBkxl1L8kJC/2yW9D2TzYIxuCFfCGlHAFHoXwDpVQ2wb\nxqhZ5mCdCw3w3+XgzJ8fY8cBE2kjAgMBAAE=\n-----END RSA PUBLIC KEY-----\n"
	for _, text := range []string{"", "ssh-rsa AAAA", weak} {
		if _, err := parsePublicKey(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestASecretFileIsForItsOwnerAndOverwritesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "deploy.key")
	if err := prepareFile(path); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(path, "mrk_secret"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "mrk_secret\n" {
		t.Errorf("%q, %v", text, err)
	}
	entry, err := os.Stat(path)
	if err != nil || entry.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", entry.Mode(), err)
	}
	if prepareFile(path) == nil {
		t.Error("a file that exists would be overwritten")
	}
	if writeFile(path, "mrk_other") == nil {
		t.Error("a file that exists was overwritten")
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
