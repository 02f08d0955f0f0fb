//go:build acceptance

// Package acceptance runs real Terraform with the built provider against a product that runs: its API,
// its worker, its brokers. MILLRACE_E2E_HOME names the product's state folder, as `npm test` sets it.
package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

// product is what `npm start` writes for its first user.
type product struct {
	Home   string `json:"-"`
	APIURL string `json:"apiUrl"`
	APIKey string `json:"apiKey"`
}

var (
	running   product
	terraform string
	// cliConfig makes Terraform take the provider that was just built.
	cliConfig string
	// millrace is the way past Terraform: what somebody does in the console.
	millrace *api.Client
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	terraform = os.Getenv("MILLRACE_TERRAFORM_BIN")
	if found, err := exec.LookPath("terraform"); terraform == "" && err == nil {
		terraform = found
	}
	home := os.Getenv("MILLRACE_E2E_HOME")
	if home == "" {
		return 1, fmt.Errorf("MILLRACE_E2E_HOME names no running product; start one with npm start and give its state folder")
	}
	text, err := os.ReadFile(filepath.Join(home, "credentials.json"))
	if err != nil {
		return 1, err
	}
	if err := json.Unmarshal(text, &running); err != nil {
		return 1, err
	}
	running.Home = home
	if millrace, err = api.Connect(api.Settings{Endpoint: running.APIURL, APIKey: running.APIKey, UserAgent: "acceptance", MaxRetries: 8, RequestsPerSecond: 100}); err != nil {
		return 1, err
	}
	folder, err := os.MkdirTemp("", "millrace-provider-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(folder)
	if err := build(folder); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func build(folder string) error {
	command := exec.Command("go", "build", "-o", filepath.Join(folder, "terraform-provider-millrace"), ".")
	command.Dir = "../.."
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	cliConfig = filepath.Join(folder, "terraform.rc")
	text := fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n  dev_overrides {\n    \"millrace/millrace\" = %q\n  }\n  direct {}\n}\n", folder)
	return os.WriteFile(cliConfig, []byte(text), 0o600)
}
