//go:build acceptance

package acceptance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every example that the reference shows is applied, leaves nothing to do, and is destroyed.
func TestExamples(t *testing.T) {
	folders, err := filepath.Glob("../../examples/*/*")
	if err != nil || len(folders) < 20 {
		t.Fatalf("%d examples, %v", len(folders), err)
	}
	for _, folder := range append(folders, "../../examples/provider", "../../examples/complete") {
		if entry, err := os.Stat(folder); err != nil || !entry.IsDir() {
			continue
		}
		t.Run(strings.TrimPrefix(folder, "../../examples/"), func(t *testing.T) {
			w := newWorkspace(t, running.APIURL)
			copyConfiguration(t, folder, w.folder)
			w.apply()
			code, output := w.plan()
			if code != planEmpty {
				t.Errorf("the second plan is not empty: exit %d\n%s", code, output)
			}
			w.destroy()
		})
	}
}

// copyConfiguration puts the example into the folder, with the provider block that all of them share.
func copyConfiguration(t *testing.T, from, to string) {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join(from, "*.tf"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("%s has no configuration: %v", from, err)
	}
	complete := false
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		complete = complete || strings.Contains(string(text), "required_providers")
		if err := os.WriteFile(filepath.Join(to, filepath.Base(source)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !complete {
		copyConfiguration(t, "../../examples/provider", to)
	}
}
