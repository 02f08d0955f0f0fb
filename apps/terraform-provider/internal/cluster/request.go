package cluster

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

// creation is the body that asks for the cluster.
func creation(planned model) api.Patch {
	body := api.Patch{
		"deletion_protection": planned.DeletionProtection.ValueBool(),
		"name":                planned.Name.ValueString(),
		"region":              planned.Region.ValueString(),
		"size":                planned.Size.ValueString(),
	}
	if isSet(planned.EnvironmentID) {
		body["environment_id"] = planned.EnvironmentID.ValueString()
	}
	if isSet(planned.PlaintextListener) {
		body["plaintext_listener"] = planned.PlaintextListener.ValueBool()
	}
	if labels := textsOf(planned.Labels); len(labels) > 0 {
		body["labels"] = labels
	}
	for name, number := range map[string]types.Int64{"brokers": planned.Brokers, "zones": planned.Zones} {
		if isSet(number) {
			body[name] = number.ValueInt64()
		}
	}
	for name, block := range map[string]types.Object{"wal": planned.Wal, "network": planned.Network, "storage": planned.Storage} {
		if said := given(block); len(said) > 0 {
			body[name] = said
		}
	}
	return body
}

// isSet tells whether the plan has a value, rather than leaving it to the API.
func isSet(value attr.Value) bool { return !value.IsUnknown() && !value.IsNull() }

// patchOf is what the plan changes; nothing where Terraform alone is concerned.
func patchOf(before, planned model) api.Patch {
	patch := api.Patch{}
	if !before.Name.Equal(planned.Name) {
		patch["name"] = planned.Name.ValueString()
	}
	for name, blocks := range map[string][2]types.Object{"wal": {before.Wal, planned.Wal}, "network": {before.Network, planned.Network}} {
		if said := changed(blocks[0], blocks[1]); len(said) > 0 {
			patch[name] = said
		}
	}
	if !before.Size.Equal(planned.Size) {
		patch["size"] = planned.Size.ValueString()
	}
	if isSet(planned.Brokers) && !before.Brokers.Equal(planned.Brokers) {
		patch["brokers"] = planned.Brokers.ValueInt64()
	}
	if !before.DeletionProtection.Equal(planned.DeletionProtection) {
		patch["deletion_protection"] = planned.DeletionProtection.ValueBool()
	}
	if isSet(planned.PlaintextListener) && !before.PlaintextListener.Equal(planned.PlaintextListener) {
		patch["plaintext_listener"] = planned.PlaintextListener.ValueBool()
	}
	if !before.Labels.Equal(planned.Labels) {
		patch["labels"] = labelPatch(textsOf(before.Labels), textsOf(planned.Labels))
	}
	return patch
}

// patchesOf orders what the plan changes: pausing and resuming stand by themselves, and nothing is
// changed while the brokers rest.
func patchesOf(before, planned model) []api.Patch {
	var patches []api.Patch
	pauses := api.Patch{"paused": planned.Paused.ValueBool()}
	changesPause := !before.Paused.Equal(planned.Paused)
	if changesPause && !planned.Paused.ValueBool() {
		patches = append(patches, pauses)
	}
	if patch := patchOf(before, planned); len(patch) > 0 {
		patches = append(patches, patch)
	}
	if changesPause && planned.Paused.ValueBool() {
		patches = append(patches, pauses)
	}
	return patches
}

// labelPatch says null for labels that went, as RFC 7396 wants it.
func labelPatch(before, planned map[string]string) map[string]any {
	changes := map[string]any{}
	for name := range before {
		if _, stays := planned[name]; !stays {
			changes[name] = nil
		}
	}
	for name, value := range planned {
		changes[name] = value
	}
	return changes
}

// deletion says how long the data is kept, where the configuration does.
func deletion(known model) *api.ClusterDeleteParams {
	params := &api.ClusterDeleteParams{}
	if !known.RetainDays.IsNull() {
		days := int(known.RetainDays.ValueInt64())
		params.RetainDays = &days
	}
	return params
}
