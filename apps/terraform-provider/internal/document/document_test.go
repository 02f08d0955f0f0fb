package document

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"strings"
	"testing"
)

const remedy = "; run: npm run generate:docs -w @millrace/terraform-provider, and read the difference"

func TestGeneratedFilesAreCurrent(t *testing.T) {
	room := os.DirFS("../..")
	files, err := Render(context.Background(), room)
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range files {
		committed, err := fs.ReadFile(room, path)
		if err != nil {
			t.Errorf("%s is missing%s", path, remedy)
			continue
		}
		if !bytes.Equal(committed, content) {
			t.Errorf("%s is not what the schema says%s", path, remedy)
		}
	}
	err = fs.WalkDir(room, "docs", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && files[path] == nil {
			t.Errorf("%s describes nothing that the provider has%s", path, remedy)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryAttributeIsDescribed(t *testing.T) {
	all, err := readSchemas(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var check func(where string, attributes []attribute)
	check = func(where string, attributes []attribute) {
		for _, each := range attributes {
			if each.Name == "timeouts" {
				continue
			}
			if strings.TrimSpace(each.Description) == "" {
				t.Errorf("%s.%s has no description", where, each.Name)
			}
			check(where+"."+each.Name, each.Attributes)
		}
	}
	for _, blocks := range []map[string]block{all.Resources, all.DataSources, all.EphemeralResources} {
		for name, each := range blocks {
			if each.Description == "" {
				t.Errorf("%s has no description", name)
			}
			check(name, each.Attributes)
		}
	}
	check("provider", all.Provider.Attributes)
}

// A state file keeps every attribute of a resource, the sensitive ones in clear text.
func TestNoResourceHasASecretAttribute(t *testing.T) {
	all, err := readSchemas(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, blocks := range []map[string]block{all.Resources, all.DataSources} {
		for name, each := range blocks {
			for _, attribute := range each.Attributes {
				if attribute.Sensitive && !attribute.WriteOnly {
					t.Errorf("%s.%s is sensitive, and would stand in the state", name, attribute.Name)
				}
			}
		}
	}
}
