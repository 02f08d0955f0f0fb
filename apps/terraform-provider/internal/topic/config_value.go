package topic

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// configType is the type of a setting's value: a string that means the same in several spellings.
type configType struct {
	basetypes.StringType
}

func (t configType) Equal(other attr.Type) bool {
	_, same := other.(configType)
	return same
}

func (t configType) String() string { return "topic.configType" }

func (t configType) ValueFromString(_ context.Context, in basetypes.StringValue) (basetypes.StringValuable, diag.Diagnostics) {
	return configValue{StringValue: in}, nil
}

func (t configType) ValueFromTerraform(ctx context.Context, in tftypes.Value) (attr.Value, error) {
	value, err := t.StringType.ValueFromTerraform(ctx, in)
	if err != nil {
		return nil, err
	}
	text, ok := value.(basetypes.StringValue)
	if !ok {
		return nil, fmt.Errorf("expected a string, got %T", value)
	}
	return configValue{StringValue: text}, nil
}

func (t configType) ValueType(context.Context) attr.Value { return configValue{} }

// configValue keeps 64-bit settings as text, as they are written: numbers of HCL lose digits past 2^53.
type configValue struct {
	basetypes.StringValue
}

func (v configValue) Type(context.Context) attr.Type { return configType{} }

func (v configValue) Equal(other attr.Value) bool {
	value, ok := other.(configValue)
	return ok && v.StringValue.Equal(value.StringValue)
}

// StringSemanticEquals tells spellings of one value apart from changes: the broker writes settings its
// own way, and that is no drift.
func (v configValue) StringSemanticEquals(_ context.Context, other basetypes.StringValuable) (bool, diag.Diagnostics) {
	value, ok := other.(configValue)
	if !ok {
		return false, nil
	}
	return canonical(v.ValueString()) == canonical(value.ValueString()), nil
}

// canonical is one spelling for all of a value: whole numbers without leading zeros, truth values in
// lower case, lists without blanks and in order.
func canonical(value string) string {
	parts := strings.Split(value, ",")
	for at, part := range parts {
		part = strings.TrimSpace(part)
		if number, err := strconv.ParseInt(part, 10, 64); err == nil {
			part = strconv.FormatInt(number, 10)
		} else if lower := strings.ToLower(part); lower == "true" || lower == "false" {
			part = lower
		}
		parts[at] = part
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}
