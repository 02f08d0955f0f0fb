// Package house holds the rules of this module's own sources that no linter of Go knows.
package house

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// functionLinesMax is the house's bound on a function; tests are not counted.
const functionLinesMax = 70

func TestSourcesKeepTheHouseRules(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, ".gen.go") {
			return err
		}
		seen++
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		checkFormat(t, path, source)
		checkFunctions(t, path, source)
		return nil
	})
	if err != nil || seen < 30 {
		t.Fatalf("%d files, %v", seen, err)
	}
}

func checkFormat(t *testing.T, path string, source []byte) {
	t.Helper()
	formatted, err := format.Source(source)
	if err != nil || !bytes.Equal(source, formatted) {
		t.Errorf("%s: run gofmt -w (%v)", path, err)
	}
}

func checkFunctions(t *testing.T, path string, source []byte) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, "_test.go") {
		return
	}
	for _, declared := range file.Decls {
		function, ok := declared.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := files.Position(function.End()).Line - files.Position(function.Pos()).Line + 1
		if lines > functionLinesMax {
			t.Errorf("%s: %s has %d lines, at most %d", path, function.Name.Name, lines, functionLinesMax)
		}
		if function.Name.IsExported() && function.Recv == nil && function.Doc == nil {
			t.Errorf("%s: %s is exported and says nothing about itself", path, function.Name.Name)
		}
	}
}
