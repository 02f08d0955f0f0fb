//go:build acceptance

package acceptance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// holdWorker makes the worker stand still (SIGSTOP) until the returned function is called, so that an
// operation stays at its beginning for as long as a test wants.
func holdWorker(t *testing.T) (release func()) {
	t.Helper()
	pid := workerPid(t)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	released := false
	release = func() {
		if !released {
			released = true
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(release)
	return release
}

func workerPid(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(running.Home, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		var processes []struct {
			Pid  int    `json:"pid"`
			Name string `json:"name"`
		}
		text, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(text, &processes) != nil {
			continue
		}
		for _, process := range processes {
			if process.Name == "worker" {
				return process.Pid
			}
		}
	}
	t.Fatal("npm start has written no process list into " + running.Home)
	return 0
}
