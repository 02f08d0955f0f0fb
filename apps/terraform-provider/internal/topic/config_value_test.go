package topic

import (
	"context"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
)

func TestSpellingsOfOneValueAreNoChange(t *testing.T) {
	for _, each := range []struct {
		one, other string
		same       bool
	}{
		{"604800000", "604800000", true},
		{"0604800000", "604800000", true},
		{"9223372036854775807", "9223372036854775807", true},
		{"9223372036854775807", "9223372036854775806", false},
		{"-1", "-1", true},
		{"TRUE", "true", true},
		{"delete,compact", "compact, delete", true},
		{"delete", "compact", false},
		{"delete", "delete,compact", false},
		{"1.0", "1", false},
		{"zstd", "ZSTD", false},
		{"", "0", false},
	} {
		one := configValue{StringValue: basetypes.NewStringValue(each.one)}
		other := configValue{StringValue: basetypes.NewStringValue(each.other)}
		same, diags := one.StringSemanticEquals(context.Background(), other)
		if diags.HasError() || same != each.same {
			t.Errorf("%q and %q: %v, want %v", each.one, each.other, same, each.same)
		}
	}
}

func TestNamesOfTopics(t *testing.T) {
	for name, good := range map[string]bool{
		"orders": true, "Orders.v1_x-2": true, "_one": true, "_": true, ".hidden": true, "1": true,
		"__consumer_offsets": false, "__x": false, "a b": false, "ä": false, "a/b": false, "": false,
	} {
		if namePattern.MatchString(name) != good {
			t.Errorf("%q: %v, want %v", name, !good, good)
		}
	}
}
