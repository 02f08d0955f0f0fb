// Package trust reads the certificates that a client connects with.
package trust

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
)

// Config trusts the certificates of caFile (PEM) and presents the one of identityFile (PEM, with its key), unless that is
// empty. It returns an error for a file that cannot be read or holds no certificate.
func Config(caFile, identityFile string) (*tls.Config, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in " + caFile)
	}
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if identityFile == "" {
		return config, nil
	}
	identity, err := tls.LoadX509KeyPair(identityFile, identityFile)
	config.Certificates = []tls.Certificate{identity}
	return config, err
}
