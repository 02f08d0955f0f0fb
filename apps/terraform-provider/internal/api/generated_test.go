package api

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The client is what the committed OpenAPI document says, and nothing else.
func TestClientIsGeneratedFromTheDocument(t *testing.T) {
	config, err := os.ReadFile("../../oapi-codegen.yaml")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	fresh, elsewhere := filepath.Join(folder, "client.gen.go"), filepath.Join(folder, "config.yaml")
	config = bytes.Replace(config, []byte("output: internal/api/client.gen.go"), []byte("output: "+fresh), 1)
	if err := os.WriteFile(elsewhere, config, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("go", "tool", "oapi-codegen", "-config", elsewhere, "openapi.json")
	command.Dir = "../.."
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	want, err := os.ReadFile(fresh)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("client.gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, committed) {
		t.Error("client.gen.go is not what openapi.json says; run: npm run generate:client -w @millrace/terraform-provider")
	}
}
