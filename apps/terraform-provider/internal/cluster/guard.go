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

	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/session"
)

// ModifyPlan refuses what would lose data, and plans to go on with what was left unfinished. A plan
// that deletes comes here too, with nothing planned: that is where a protected cluster is defended,
// before anything has been done.
func (r *clusterResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var before, planned model
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
		if r.Session != nil {
			r.Session.Clusters.Store(before.ID.ValueString(), true)
		}
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
	if !before.PlaintextListener.Equal(planned.PlaintextListener) || !before.Brokers.Equal(planned.Brokers) {
		endpoints := types.ListUnknown(types.ObjectType{AttrTypes: endpointType})
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("endpoints"), endpoints)...)
	}
	unfinished, diags := req.Private.GetKey(ctx, unfinishedKey)
	resp.Diagnostics.Append(diags...)
	if !before.isSettled() || isUnfinished(unfinished) {
		r.guardDeletion(ctx, before, planned, &resp.Diagnostics)
		planToContinue(ctx, before, len(patchesOf(before, planned)) > 0, resp)
		return
	}
	r.previewUpdate(ctx, req.Config, before, planned, &resp.Diagnostics)
}

// guardDeletion refuses to plan anything for a cluster whose deletion failed: an apply that went on would
// either delete it or bring it back, and nobody has said which. Protection can be given and taken.
func (r *clusterResource) guardDeletion(ctx context.Context, before, planned model, diags *diag.Diagnostics) {
	id := before.LastOperationID.ValueString()
	if r.Session == nil || before.State.ValueString() != phaseFailed || id == "" || !before.DeletionProtection.Equal(planned.DeletionProtection) {
		return
	}
	last, err := api.Read[api.Operation](r.Session.OperationGet(ctx, id, nil))
	if err != nil {
		session.Report(diags, "Reading the last operation of cluster "+before.ID.ValueString(), err)
		return
	}
	if isFailedDeletion(last) {
		diags.AddError("The cluster's deletion failed",
			fmt.Sprintf("Cluster %s (%s) is FAILED. %s", before.Name.ValueString(), before.ID.ValueString(), deletionFailed(last)))
	}
}

func guardDestroy(before model, diags *diag.Diagnostics) {
	if before.DeletionProtection.ValueBool() {
		diags.AddAttributeError(path.Root("deletion_protection"), "The cluster is protected from deletion",
			fmt.Sprintf("Cluster %s (%s) would be deleted with its topics. Set deletion_protection = false and apply that first.",
				before.Name.ValueString(), before.ID.ValueString()))
	}
}

// replacing names the attributes whose change means another cluster. A value that is not known yet counts:
// Terraform replaces for it, whatever it turns out to be.
func replacing(before, planned model) []string {
	var changed []string
	note := func(name string, before, planned attr.Value) {
		if planned != nil && !planned.Equal(before) {
			changed = append(changed, name)
		}
	}
	note("environment_id", before.EnvironmentID, planned.EnvironmentID)
	note("region", before.Region, planned.Region)
	if changesStorage(before.Brokers, planned.Brokers) {
		changed = append(changed, "brokers")
	}
	note("zones", before.Zones, planned.Zones)
	for _, name := range []string{"vpc_id", "subnet_ids", "cidr"} {
		note("network."+name, before.Network.Attributes()[name], planned.Network.Attributes()[name])
	}
	note("storage.kms_key_arn", before.Storage.Attributes()["kms_key_arn"], planned.Storage.Attributes()["kms_key_arn"])
	return changed
}

// aloneOrNot says when another number of brokers means another cluster.
const aloneOrNot = "A change from or to one broker replaces the cluster."

// changesStorage tells whether the metadata would have to move: one broker keeps it in a file of its own, several share
// a database. A number that is not known yet counts as several.
func changesStorage(before, planned types.Int64) bool {
	if before.IsNull() || before.Equal(planned) {
		return false
	}
	return before.ValueInt64() == 1 || planned.ValueInt64() == 1
}

// guardVolume refuses a smaller volume: EBS volumes only grow.
func guardVolume(before, planned model, diags *diag.Diagnostics) {
	was, hadOne := before.Wal.Attributes()["size_gib"].(types.Int64)
	wanted, hasOne := planned.Wal.Attributes()["size_gib"].(types.Int64)
	if hadOne && hasOne && isSet(wanted) && wanted.ValueInt64() < was.ValueInt64() {
		diags.AddAttributeError(path.Root("wal").AtName("size_gib"), "The volume of the write-ahead log cannot shrink",
			fmt.Sprintf("Cluster %s has %d GiB per broker slot, the configuration says %d. A volume can only grow: set at least %d.",
				before.Name.ValueString(), was.ValueInt64(), wanted.ValueInt64(), was.ValueInt64()))
	}
}

// guardReplacement lets no cluster be replaced silently.
func guardReplacement(before model, changed []string, diags *diag.Diagnostics) {
	text := fmt.Sprintf("Changing %s replaces the cluster: %s (%s) would be deleted with its topics and records, and an empty one created.",
		strings.Join(changed, ", "), before.Name.ValueString(), before.ID.ValueString())
	attribute, _, _ := strings.Cut(changed[0], ".")
	at := path.Root(attribute)
	if before.DeletionProtection.ValueBool() {
		diags.AddAttributeError(at, "The plan would replace a protected cluster",
			text+" Revert the change, or set deletion_protection = false and apply that first.")
		return
	}
	diags.AddAttributeWarning(at, "The plan replaces a cluster", text)
}

// planToContinue makes the plan an update in place whose apply goes on where the last one stopped.
func planToContinue(ctx context.Context, before model, changes bool, resp *resource.ModifyPlanResponse) {
	if resp.Diagnostics.HasError() {
		return
	}
	for name, unknown := range map[string]any{
		"state":                      types.StringUnknown(),
		"last_operation_id":          types.StringUnknown(),
		"etag":                       types.StringUnknown(),
		"drift":                      types.StringUnknown(),
		"estimated_monthly_cost_usd": types.Float64Unknown(),
		"endpoints":                  types.ListUnknown(types.ObjectType{AttrTypes: endpointType}),
	} {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), unknown)...)
	}
	cluster := fmt.Sprintf("Cluster %s (%s) is %s.", before.Name.ValueString(), before.ID.ValueString(), before.State.ValueString())
	operation := before.LastOperationID.ValueString()
	summary, text := "Applying continues the cluster's operation", fmt.Sprintf("Applying waits for operation %s; nothing is replaced.", operation)
	switch state := before.State.ValueString(); {
	case state == phaseDeleting:
		summary = "The cluster is being deleted"
		text = fmt.Sprintf("Applying waits for operation %s and then fails, since there is nothing left to change; the next plan makes another cluster.", operation)
	case state == phaseFailed && changes:
		summary = "Applying changes and retries the cluster"
		text = fmt.Sprintf("Applying makes the plan's change, and retries operation %s in place where the API wants that first; nothing is replaced. "+
			"Where the operation cannot succeed without the change, only another cluster helps: terraform apply -replace=<address>.", operation)
	case state == phaseFailed:
		summary = "Applying retries the cluster"
		text = fmt.Sprintf("Applying retries operation %s in place; nothing is replaced.", operation)
	case state != phaseProvisioning:
		text = fmt.Sprintf("An earlier change did not come to its end. Applying waits for operation %s, and retries it where it failed; nothing is replaced.", operation)
	}
	resp.Diagnostics.AddWarning(summary, cluster+" "+text)
}
