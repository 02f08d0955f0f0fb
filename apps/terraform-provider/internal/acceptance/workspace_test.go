//go:build acceptance

package acceptance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

const (
	commandTimeout = 5 * time.Minute
	prelude        = `
terraform {
  required_version = ">= 1.11"
  required_providers {
    millrace = { source = "millrace/millrace" }
  }
}
`
	// Exit codes of `plan -detailed-exitcode`.
	planFails   = 1
	planEmpty   = 0
	planChanges = 2
)

// workspace is a folder with a configuration and its state.
type workspace struct {
	t        *testing.T
	folder   string
	endpoint string
}

func newWorkspace(t *testing.T, endpoint string) *workspace {
	t.Helper()
	if terraform == "" {
		t.Skip("no Terraform: set MILLRACE_TERRAFORM_BIN")
	}
	w := &workspace{t: t, folder: t.TempDir(), endpoint: endpoint}
	// A test that fails half-way leaves nothing to the ones behind it.
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(w.folder, "terraform.tfstate")); t.Failed() && err == nil {
			w.endpoint = running.APIURL
			code, output := w.run("destroy", "-auto-approve", "-input=false", "-no-color")
			t.Logf("destroy after the failure: exit %d\n%s", code, output)
		}
	})
	return w
}

// write replaces the configuration.
func (w *workspace) write(config string) {
	w.t.Helper()
	if !strings.Contains(config, `provider "millrace"`) {
		config = "provider \"millrace\" {\n  requests_per_second = 200\n}\n" + config
	}
	if err := os.WriteFile(filepath.Join(w.folder, "main.tf"), []byte(prelude+config), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// command is a run of Terraform that has not begun.
func (w *workspace) command(arguments ...string) (*exec.Cmd, *bytes.Buffer) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	context.AfterFunc(ctx, cancel)
	command := exec.CommandContext(ctx, terraform, arguments...)
	command.Dir = w.folder
	command.Env = append(os.Environ(),
		"TF_CLI_CONFIG_FILE="+cliConfig, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "NO_COLOR=1",
		"MILLRACE_ENDPOINT="+w.endpoint, "MILLRACE_API_KEY="+running.APIKey)
	// A group of its own: a Ctrl-C of the test run is not one of Terraform's.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	return command, &output
}

// run returns the exit code and everything that was printed, without the folds of long lines.
func (w *workspace) run(arguments ...string) (int, string) {
	w.t.Helper()
	command, output := w.command(arguments...)
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), unfolded(output.String())
}

func unfolded(output string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╵", " ", "╷", " ").Replace(output)), " ")
}

func (w *workspace) must(arguments ...string) string {
	w.t.Helper()
	code, output := w.run(arguments...)
	if code != 0 {
		w.t.Fatalf("terraform %s: exit %d\n%s", strings.Join(arguments, " "), code, output)
	}
	return output
}

func (w *workspace) apply(arguments ...string) string {
	w.t.Helper()
	return w.must(append([]string{"apply", "-auto-approve", "-input=false", "-no-color"}, arguments...)...)
}

// destroy is also what ends a test that owns things.
func (w *workspace) destroy() {
	w.t.Helper()
	w.must("destroy", "-auto-approve", "-input=false", "-no-color")
}

// plan returns one of the plan… codes.
func (w *workspace) plan(arguments ...string) (int, string) {
	w.t.Helper()
	return w.run(append([]string{"plan", "-detailed-exitcode", "-input=false", "-no-color"}, arguments...)...)
}

func (w *workspace) wantPlan(want int, parts ...string) string {
	w.t.Helper()
	code, output := w.plan()
	if code != want {
		w.t.Fatalf("plan: exit %d, want %d\n%s", code, want, output)
	}
	wantParts(w.t, output, parts...)
	return output
}

func wantParts(t *testing.T, output string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(output, part) {
			t.Fatalf("%q is not in\n%s", part, output)
		}
	}
}

// state returns the attributes of a resource, or nil where the state does not know it.
func (w *workspace) state(address string) map[string]any {
	w.t.Helper()
	command, output := w.command("show", "-json")
	if err := command.Run(); err != nil {
		w.t.Fatalf("%v\n%s", err, output)
	}
	var shown struct {
		Values struct {
			Root struct {
				Resources []struct {
					Address string         `json:"address"`
					Tainted bool           `json:"tainted"`
					Values  map[string]any `json:"values"`
				} `json:"resources"`
			} `json:"root_module"`
		} `json:"values"`
	}
	if err := json.Unmarshal(output.Bytes(), &shown); err != nil {
		w.t.Fatalf("%v\n%s", err, output)
	}
	for _, resource := range shown.Values.Root.Resources {
		if resource.Address == address {
			if resource.Tainted {
				w.t.Fatalf("%s is tainted", address)
			}
			return resource.Values
		}
	}
	return nil
}

// attribute of a resource as text.
func (w *workspace) attribute(address, name string) string {
	w.t.Helper()
	text, ok := w.state(address)[name].(string)
	if !ok {
		w.t.Fatalf("%s has no text %s: %v", address, name, w.state(address))
	}
	return text
}

// unique is a name that no other test takes.
func unique(prefix string) string {
	return prefix + "-" + strings.ToLower(rand.Text()[:8])
}

// answered takes any answer of the API that is no refusal.
func answered(response *http.Response, err error) error {
	_, err = api.Read[json.RawMessage](response, err)
	return err
}
