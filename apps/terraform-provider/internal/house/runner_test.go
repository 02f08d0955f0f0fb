package house

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runner is tools/go.ts, which the room's scripts run Go by. Its end is the exit code.
func runner(t *testing.T, environment string, arguments ...string) (said string, code int) {
	t.Helper()
	// The workspace's own Node, where it is installed: the scripts need its version.
	node, err := filepath.Abs("../../../../node_modules/.bin/node")
	if _, absent := os.Stat(node); err != nil || absent != nil {
		node = "node"
	}
	const script = "../../tools/go.ts"
	// Looked at here, so that Go does not take an older result for this one's.
	if _, err := os.Stat(script); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), node, append([]string{script}, arguments...)...)
	command.Env = append(os.Environ(), environment)
	output, err := command.Output()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return string(output), command.ProcessState.ExitCode()
}

// What the compiler says of a test that it cannot compile is shown, and the run fails.
func TestTheRunnerShowsWhatDoesNotCompile(t *testing.T) {
	room, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	broken, overlay := filepath.Join(folder, "broken.go"), filepath.Join(folder, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(room, "internal/house/broken_test.go"): broken}})
	err = errors.Join(err,
		os.WriteFile(broken, []byte("package house\n\nvar _ = nowhereDefined\n"), 0o600),
		os.WriteFile(overlay, text, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	said, code := runner(t, "MILLRACE_GO=", "test", "-overlay", overlay, "./internal/house")
	if code == 0 || !strings.Contains(said, "undefined: nowhereDefined") || !strings.Contains(said, "Tests  ") {
		t.Errorf("exit %d:\n%s", code, said)
	}
}

// A Go that cannot build the provider is as good as none: that is said, and counted as skipped.
func TestTheRunnerNamesTheGoThatItNeeds(t *testing.T) {
	for version, want := range map[string]string{
		"go version go1.25.9 linux/amd64": "needs Go 1.26 or later", "go version go0.99 linux/amd64": "needs Go 1.26 or later",
		"no version at all": "needs Go 1.26 or later", "go version go1.26.0 linux/amd64": "", "go version go2.0 linux/amd64": "",
	} {
		program := filepath.Join(t.TempDir(), "go")
		if err := os.WriteFile(program, []byte("#!/bin/sh\necho '"+version+"'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		said, code := runner(t, "MILLRACE_GO="+program, "test", "./...")
		isSkipped := strings.HasPrefix(said, "skipped: ") && strings.Contains(said, "1 skipped (1)")
		if code != 0 || isSkipped != (want != "") || !strings.Contains(said, want) {
			t.Errorf("%s: exit %d: %s", version, code, said)
		}
	}
}
