package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// ModifyPlan refuses what would lose data, and plans to go on with what was left unfinished. A plan
// that deletes comes here too, with nothing planned: that is where a protected cluster is defended,
// before anything has been done.
func (r *clusterResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var before, planned model
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	}
	if !req.Plan.Raw.IsNull() {
		resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	}
	switch {
	case resp.Diagnostics.HasError():
	case req.Plan.Raw.IsNull():
		guardDestroy(before, &resp.Diagnostics)
	case req.State.Raw.IsNull():
		r.previewCreate(ctx, req.Config, planned, &resp.Diagnostics)
	default:
		r.modifyUpdate(ctx, req, before, planned, resp)
	}
}

func (r *clusterResource) modifyUpdate(ctx context.Context, req resource.ModifyPlanRequest, before, planned model, resp *resource.ModifyPlanResponse) {
	if changed := replacing(before, planned); len(changed) > 0 {
		guardReplacement(before, changed, &resp.Diagnostics)
		return
	}
	guardVolume(before, planned, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	unfinished, diags := req.Private.GetKey(ctx, unfinishedKey)
	resp.Diagnostics.Append(diags...)
	if !before.isSettled() || isUnfinished(unfinished) {
		planToContinue(ctx, before, resp)
		return
	}
	r.previewUpdate(ctx, req.Config, before, planned, &resp.Diagnostics)
}

func guardDestroy(before model, diags *diag.Diagnostics) {
	if before.DeletionProtection.ValueBool() {
		diags.AddAttributeError(path.Root("deletion_protection"), "The cluster is protected from deletion",
			fmt.Sprintf("Cluster %s (%s) would be deleted with its topics. Set deletion_protection = false and apply that first.",
				before.Name.ValueString(), before.ID.ValueString()))
	}
}

// replacing names the attributes whose change means another cluster.
func replacing(before, planned model) []string {
	var changed []string
	note := func(name string, before, planned attr.Value) {
		if planned != nil && !planned.IsUnknown() && !planned.Equal(before) {
			changed = append(changed, name)
		}
	}
	note("environment_id", before.EnvironmentID, planned.EnvironmentID)
	note("region", before.Region, planned.Region)
	note("brokers", before.Brokers, planned.Brokers)
	note("zones", before.Zones, planned.Zones)
	for _, name := range []string{"vpc_id", "subnet_ids", "cidr"} {
		note("network."+name, before.Network.Attributes()[name], planned.Network.Attributes()[name])
	}
	note("storage.kms_key_arn", before.Storage.Attributes()["kms_key_arn"], planned.Storage.Attributes()["kms_key_arn"])
	return changed
}

// guardVolume refuses a smaller volume: EBS volumes only grow.
func guardVolume(before, planned model, diags *diag.Diagnostics) {
	was, hadOne := before.Wal.Attributes()["size_gib"].(types.Int64)
	wanted, hasOne := planned.Wal.Attributes()["size_gib"].(types.Int64)
	if hadOne && hasOne && !wanted.IsUnknown() && !wanted.IsNull() && wanted.ValueInt64() < was.ValueInt64() {
		diags.AddAttributeError(path.Root("wal").AtName("size_gib"), "The volume of the write-ahead log cannot shrink",
			fmt.Sprintf("Cluster %s has %d GiB per broker slot, the configuration says %d. A volume only grows: write at least %d.",
				before.Name.ValueString(), was.ValueInt64(), wanted.ValueInt64(), was.ValueInt64()))
	}
}

// guardReplacement lets no cluster be replaced silently.
func guardReplacement(before model, changed []string, diags *diag.Diagnostics) {
	text := fmt.Sprintf("A change of %s means another cluster: %s (%s) would be deleted with its topics and records, and an empty one made.",
		strings.Join(changed, ", "), before.Name.ValueString(), before.ID.ValueString())
	attribute, _, _ := strings.Cut(changed[0], ".")
	at := path.Root(attribute)
	if before.DeletionProtection.ValueBool() {
		diags.AddAttributeError(at, "The plan would replace a protected cluster",
			text+" Take the change back, or set deletion_protection = false and apply that first.")
		return
	}
	diags.AddAttributeWarning(at, "The plan replaces a cluster", text)
}

// planToContinue makes the plan an update in place whose apply goes on where the last one stopped.
func planToContinue(ctx context.Context, before model, resp *resource.ModifyPlanResponse) {
	for name, unknown := range map[string]any{
		"state":             types.StringUnknown(),
		"last_operation_id": types.StringUnknown(),
		"etag":              types.StringUnknown(),
		"endpoints":         types.ListUnknown(types.ObjectType{AttrTypes: endpointType}),
	} {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), unknown)...)
	}
	operation := before.LastOperationID.ValueString()
	if before.State.ValueString() == phaseFailed {
		resp.Diagnostics.AddWarning("Applying retries the cluster",
			fmt.Sprintf("Cluster %s (%s) is FAILED. Applying retries operation %s in place; nothing is replaced.",
				before.Name.ValueString(), before.ID.ValueString(), operation))
		return
	}
	resp.Diagnostics.AddWarning("Applying continues the cluster's operation",
		fmt.Sprintf("Cluster %s (%s) is %s. Applying waits for operation %s; nothing is replaced.",
			before.Name.ValueString(), before.ID.ValueString(), before.State.ValueString(), operation))
}
