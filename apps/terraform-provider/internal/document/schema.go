// Package document renders what users read and what reviewers compare: the reference pages and the
// golden schema, both from the provider's own schema, so that neither can say something else.
package document

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/millrace/terraform-provider-millrace/internal/provider"
)

// attribute of a schema, as the golden file holds it.
type attribute struct {
	Name        string      `json:"name"`
	Type        string      `json:"type"`
	Mode        string      `json:"mode"`
	Sensitive   bool        `json:"sensitive,omitempty"`
	WriteOnly   bool        `json:"write_only,omitempty"`
	Description string      `json:"description"`
	Attributes  []attribute `json:"attributes,omitempty"`
}

// block is the schema of the provider, a resource or a data source.
type block struct {
	Version     int64       `json:"version"`
	Description string      `json:"description"`
	Attributes  []attribute `json:"attributes"`
}

// schemas of everything that the provider has.
type schemas struct {
	Provider           block            `json:"provider"`
	Resources          map[string]block `json:"resources"`
	DataSources        map[string]block `json:"data_sources"`
	EphemeralResources map[string]block `json:"ephemeral_resources"`
}

func readSchemas(ctx context.Context) (*schemas, error) {
	server, err := providerserver.NewProtocol6WithError(provider.New("dev")())()
	if err != nil {
		return nil, err
	}
	answer, err := server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		return nil, err
	}
	for _, diagnostic := range answer.Diagnostics {
		return nil, fmt.Errorf("%s: %s", diagnostic.Summary, diagnostic.Detail)
	}
	return &schemas{
		Provider:           blockOf(answer.Provider),
		Resources:          blocksOf(answer.ResourceSchemas),
		DataSources:        blocksOf(answer.DataSourceSchemas),
		EphemeralResources: blocksOf(answer.EphemeralResourceSchemas),
	}, nil
}

func blocksOf(all map[string]*tfprotov6.Schema) map[string]block {
	blocks := map[string]block{}
	for name, schema := range all {
		blocks[name] = blockOf(schema)
	}
	return blocks
}

func blockOf(schema *tfprotov6.Schema) block {
	return block{
		Version:     schema.Version,
		Description: schema.Block.Description,
		Attributes:  attributesOf(schema.Block.Attributes),
	}
}

func attributesOf(all []*tfprotov6.SchemaAttribute) []attribute {
	attributes := []attribute{}
	for _, each := range all {
		found := attribute{
			Name:        each.Name,
			Mode:        modeOf(each),
			Sensitive:   each.Sensitive,
			WriteOnly:   each.WriteOnly,
			Description: each.Description,
		}
		if each.NestedType != nil {
			found.Type = nestingOf(each.NestedType.Nesting)
			found.Attributes = attributesOf(each.NestedType.Attributes)
		} else {
			found.Type = typeName(each.Type)
		}
		attributes = append(attributes, found)
	}
	slices.SortFunc(attributes, func(a, b attribute) int { return strings.Compare(a.Name, b.Name) })
	return attributes
}

func modeOf(each *tfprotov6.SchemaAttribute) string {
	switch {
	case each.Required:
		return "required"
	case each.Optional && each.Computed:
		return "optional, computed"
	case each.Optional:
		return "optional"
	}
	return "computed"
}

func nestingOf(mode tfprotov6.SchemaObjectNestingMode) string {
	switch mode {
	case tfprotov6.SchemaObjectNestingModeList:
		return "list of objects"
	case tfprotov6.SchemaObjectNestingModeMap:
		return "map of objects"
	case tfprotov6.SchemaObjectNestingModeSet:
		return "set of objects"
	}
	return "object"
}

func typeName(kind tftypes.Type) string {
	switch kind := kind.(type) {
	case tftypes.List:
		return "list of " + typeName(kind.ElementType)
	case tftypes.Set:
		return "set of " + typeName(kind.ElementType)
	case tftypes.Map:
		return "map of " + typeName(kind.ElementType)
	case tftypes.Object:
		names := make([]string, 0, len(kind.AttributeTypes))
		for name, inner := range kind.AttributeTypes {
			names = append(names, name+" "+typeName(inner))
		}
		slices.Sort(names)
		return "object (" + strings.Join(names, ", ") + ")"
	}
	switch {
	case kind.Is(tftypes.Bool):
		return "bool"
	case kind.Is(tftypes.Number):
		return "number"
	}
	return "string"
}

func golden(all *schemas) ([]byte, error) {
	text, err := json.MarshalIndent(all, "", "  ")
	return append(text, '\n'), err
}
