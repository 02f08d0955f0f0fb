// Command document writes the reference pages and the golden schema into the module's folder.
package main

import (
	"context"
	"log"
	"os"
	"path/filepath"

	"github.com/millrace/terraform-provider-millrace/internal/document"
)

func main() {
	files, err := document.Render(context.Background(), os.DirFS("."))
	if err != nil {
		log.Fatal(err)
	}
	if err := os.RemoveAll("docs"); err != nil {
		log.Fatal(err)
	}
	for path, content := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
