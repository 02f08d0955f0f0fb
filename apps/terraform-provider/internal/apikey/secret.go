package apikey

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// secretLabel binds the ciphertext to its use (RSA-OAEP's label).
	secretLabel = "millrace api key"
	// rsaBitsMin is what is still held to be safe.
	rsaBitsMin = 2048
)

// parsePublicKey reads an RSA key in PEM: PKIX (`BEGIN PUBLIC KEY`) or PKCS #1.
func parsePublicKey(text string) (*rsa.PublicKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("this is no PEM; write the output of: openssl rsa -in key.pem -pubout")
	}
	key, err := publicKeyOf(block)
	if err != nil {
		return nil, err
	}
	if key.N.BitLen() < rsaBitsMin {
		return nil, fmt.Errorf("the key has %d bits; use at least %d", key.N.BitLen(), rsaBitsMin)
	}
	return key, nil
}

func publicKeyOf(block *pem.Block) (*rsa.PublicKey, error) {
	switch block.Type {
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "PUBLIC KEY":
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		key, ok := parsed.(*rsa.PublicKey)
		if !ok {
			return nil, fmt.Errorf("the key is a %T; only RSA keys encrypt", parsed)
		}
		return key, nil
	}
	return nil, fmt.Errorf("a block %q is no public key", block.Type)
}

// seal encrypts the secret for the holder of the private key: RSA-OAEP with SHA-256, in base64.
func seal(secret string, key *rsa.PublicKey) (string, error) {
	sealed, err := rsa.EncryptOAEP(sha256.New(), rand.Reader, key, []byte(secret), []byte(secretLabel))
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(sealed), nil
}

// holdsKey tells whether the file is there and holds the key with the hint.
func holdsKey(path, hint string) (bool, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && hint != "" && strings.HasPrefix(string(text), strings.TrimSuffix(hint, "…")), err
}

// checkRotation makes sure, before a key is revoked, that the file of the next one will be free: there is
// none, or it is the old key's, which goes with it.
func checkRotation(path, oldPath, oldHint string) error {
	if path == oldPath {
		if isOld, err := holdsKey(path, oldHint); isOld || err != nil {
			return err
		}
	}
	return checkFree(path)
}

// checkFree refuses a file that exists.
func checkFree(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists already, and holds no key that is being replaced; move it away, since a secret is never written over something", path)
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// removeFile takes the secret of a revoked key away; a file that holds something else stays.
func removeFile(path, hint string) error {
	isIts, err := holdsKey(path, hint)
	if !isIts || err != nil {
		return err
	}
	return os.Remove(path)
}

// prepareFile makes sure, before a key exists, that its secret can be written.
func prepareFile(path string) error {
	if err := checkFree(path); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Dir(path), 0o700)
}

// writeFile keeps the secret where only this user reads it, and appears whole or not at all.
func writeFile(path, secret string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".millrace-key-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if _, err := file.WriteString(secret + "\n"); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Link(file.Name(), path)
}
