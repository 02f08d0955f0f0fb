package cluster

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

// unfinishedKey marks in the private state that an update was interrupted while its operation went on.
const unfinishedKey = "unfinished"

func isUnfinished(value []byte) bool { return string(value) == "true" }

// Update first brings to its end what an earlier apply left unfinished, then changes what the plan
// changes.
func (r *clusterResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var before, planned model
	resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	patience, diags := planned.Timeouts.Update(ctx, updateTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := r.continueEarlier(waiting, before)
	if err == nil {
		err = r.change(waiting, before, planned)
	}
	planned.keepFacts(before)
	r.look(ctx, &planned)
	resp.Diagnostics.Append(resp.State.Set(context.WithoutCancel(ctx), &planned)...)
	interrupted := waiting.Err() != nil
	mark := []byte("null")
	if interrupted {
		mark = []byte("true")
	}
	resp.Diagnostics.Append(resp.Private.SetKey(context.WithoutCancel(ctx), unfinishedKey, mark)...)
	if err != nil {
		explainUpdate(before, planned, interrupted, err, &resp.Diagnostics)
	}
}

// continueEarlier waits for the operation at work, and retries one that failed.
func (r *clusterResource) continueEarlier(ctx context.Context, before model) error {
	cluster, err := api.Read[api.Cluster](r.Session.ClusterGet(ctx, before.ID.ValueString()))
	if err != nil {
		return err
	}
	switch string(cluster.Status.Phase) {
	case phaseProvisioning, phaseUpdating:
		if err := awaitCurrent(ctx, r.Session.Client, cluster); err != nil {
			return err
		}
		if cluster, err = api.Read[api.Cluster](r.Session.ClusterGet(ctx, before.ID.ValueString())); err != nil {
			return err
		}
	}
	if string(cluster.Status.Phase) != phaseFailed || cluster.Status.OperationId == nil {
		return nil
	}
	operation, err := api.Read[api.Operation](r.Session.OperationRetry(ctx, *cluster.Status.OperationId, nil))
	if err != nil {
		return err
	}
	_, err = api.Wait(ctx, r.Session.Client, operation.Id)
	return err
}

// change asks for what the plan changes, where the API is concerned at all.
func (r *clusterResource) change(ctx context.Context, before, planned model) error {
	id := before.ID.ValueString()
	for _, patch := range patchesOf(before, planned) {
		err := r.whenQuiet(ctx, id, func() (string, error) {
			accepted, err := api.Read[accepted](r.Session.ClusterUpdateWithBody(ctx, id, nil, api.MergePatch, patch.Reader()))
			if err != nil {
				return "", err
			}
			return accepted.OperationID, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// accepted is the part of an answer that names the operation; metadata alone changes without one.
type accepted struct {
	OperationID string `json:"operation_id"`
}

// explainUpdate says how a change stands that did not succeed: Terraform keeps what is in the state.
func explainUpdate(before, planned model, interrupted bool, err error, diags *diag.Diagnostics) {
	name, id := before.Name.ValueString(), before.ID.ValueString()
	if interrupted {
		diags.AddError("The cluster is still being changed",
			fmt.Sprintf("Waiting for cluster %s (%s) ended: %s. Operation %s goes on; the next apply waits for it again.",
				name, id, reasonOf(err), planned.LastOperationID.ValueString()))
		return
	}
	diags.AddError("Changing cluster "+name+" failed",
		fmt.Sprintf("Cluster %s: %s\nApply again to retry it in place.", id, err))
}
