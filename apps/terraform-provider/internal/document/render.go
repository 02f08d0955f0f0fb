package document

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// SchemaFile holds the golden schema.
const SchemaFile = "schema.json"

// Render returns every generated file by its path: the golden schema, and a page for the provider, each
// resource, data source and ephemeral resource. `room` is the folder of the module, with its examples.
func Render(ctx context.Context, room fs.FS) (map[string][]byte, error) {
	all, err := readSchemas(ctx)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	if files[SchemaFile], err = golden(all); err != nil {
		return nil, err
	}
	if files["docs/index.md"], err = indexPage(room, all.Provider); err != nil {
		return nil, err
	}
	for _, each := range []struct {
		blocks             map[string]block
		folder, kind, file string
	}{
		{all.Resources, "resources", "Resource", "resource.tf"},
		{all.DataSources, "data-sources", "Data source", "data-source.tf"},
		{all.EphemeralResources, "ephemeral-resources", "Ephemeral resource", "ephemeral-resource.tf"},
	} {
		for _, name := range slices.Sorted(maps.Keys(each.blocks)) {
			page, err := page(room, each.folder, each.kind, name, each.file, each.blocks[name])
			if err != nil {
				return nil, err
			}
			files["docs/"+each.folder+"/"+strings.TrimPrefix(name, "millrace_")+".md"] = page
		}
	}
	return files, nil
}

func indexPage(room fs.FS, provider block) ([]byte, error) {
	example, err := fs.ReadFile(room, "examples/provider/provider.tf")
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	front(&text, "Provider millrace", provider.Description)
	text.WriteString("# Provider millrace\n\n" + provider.Description + "\n\n")
	fmt.Fprintf(&text, "## Example\n\n```terraform\n%s```\n\n", example)
	text.WriteString("## Configuration\n\n")
	writeAttributes(&text, provider.Attributes, 0)
	return []byte(text.String()), nil
}

func page(room fs.FS, folder, kind, name, file string, described block) ([]byte, error) {
	example, err := fs.ReadFile(room, "examples/"+folder+"/"+name+"/"+file)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	title := fmt.Sprintf("%s %s", kind, name)
	front(&text, title, described.Description)
	fmt.Fprintf(&text, "# %s\n\n%s\n\n## Example\n\n```terraform\n%s```\n\n", title, described.Description, example)
	arguments, facts := split(described.Attributes)
	if len(arguments) > 0 {
		text.WriteString("## Arguments\n\n")
		writeAttributes(&text, arguments, 0)
		text.WriteString("\n")
	}
	if len(facts) > 0 {
		text.WriteString("## Read-only\n\n")
		writeAttributes(&text, facts, 0)
	}
	command, err := fs.ReadFile(room, "examples/"+folder+"/"+name+"/import.sh")
	if errors.Is(err, fs.ErrNotExist) {
		return []byte(text.String()), nil
	}
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&text, "\n## Import\n\n```shell\n%s```\n", command)
	return []byte(text.String()), nil
}

func front(text *strings.Builder, title, description string) {
	first, _, _ := strings.Cut(description, ". ")
	fmt.Fprintf(text, "---\npage_title: %q\ndescription: %q\n---\n\n", title, strings.TrimSuffix(first, ".")+".")
}

func split(attributes []attribute) (arguments, facts []attribute) {
	for _, each := range attributes {
		if each.Mode == "computed" {
			facts = append(facts, each)
		} else {
			arguments = append(arguments, each)
		}
	}
	// What must be given comes first.
	slices.SortStableFunc(arguments, func(a, b attribute) int {
		return rank(a) - rank(b)
	})
	return arguments, facts
}

func rank(each attribute) int {
	if each.Mode == "required" {
		return 0
	}
	return 1
}

func writeAttributes(text *strings.Builder, attributes []attribute, depth int) {
	for _, each := range attributes {
		notes := []string{each.Type}
		if each.Mode == "required" {
			notes = append(notes, "required")
		}
		if each.Sensitive {
			notes = append(notes, "sensitive")
		}
		description := each.Description
		if description == "" && each.Name == "timeouts" {
			description = "How long Terraform waits, for example `\"30m\"`. An operation that is not done by then continues, and the next apply waits for it again."
		}
		fmt.Fprintf(text, "%s- `%s` (%s) %s\n", strings.Repeat("  ", depth), each.Name, strings.Join(notes, ", "), description)
		writeAttributes(text, each.Attributes, depth+1)
	}
}
