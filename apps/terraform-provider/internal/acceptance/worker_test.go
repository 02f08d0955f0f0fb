//go:build acceptance

package acceptance

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// holdWorker makes the worker stand still (SIGSTOP) until the returned function is called, so that an
// operation stays at its beginning for as long as a test wants. A child lets it go on: it does so, too,
// where this process dies and its pipe with it.
func holdWorker(t *testing.T) (release func()) {
	t.Helper()
	pid := workerPid(t)
	watchdog := exec.Command("sh", "-c", `read -r _; kill -CONT "$0"`, strconv.Itoa(pid))
	// A group of its own: a Ctrl-C of the test run does not end it.
	watchdog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	held, err := watchdog.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watchdog.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	release = func() {
		once.Do(func() {
			if err := errors.Join(held.Close(), watchdog.Wait()); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(release)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
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
