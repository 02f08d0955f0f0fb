package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/session"
)

const (
	createTimeout = 60 * time.Minute
	updateTimeout = 90 * time.Minute
	deleteTimeout = 45 * time.Minute
	// lastLookTimeout is for reading what an interrupted apply leaves behind.
	lastLookTimeout = 5 * time.Second
)

// nameTaken is the API's code for a name that another cluster of the environment has.
const nameTaken = "cluster_name_taken"

func (r *clusterResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var planned model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	patience, diags := planned.Timeouts.Create(ctx, createTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	accepted, err := r.accept(ctx, planned)
	if err != nil {
		refuse(planned, err, &resp.Diagnostics)
		return
	}
	wanted := planned.Paused
	planned.take(accepted)
	planned.Paused = wanted
	// Terraform writes its state when this call returns, which a Ctrl-C lets it do; a killed provider
	// leaves nothing, and the next apply says how the cluster is taken over.
	resp.Diagnostics.Append(resp.State.Set(ctx, &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	created, err := api.Wait(waiting, r.Session.Client, planned.LastOperationID.ValueString())
	var pausing error
	if err == nil && wanted.ValueBool() {
		// The API makes clusters that run; one that rests is paused as soon as it is there.
		_, pausing = r.patch(waiting, planned.ID.ValueString(), api.Patch{"paused": true}, created)
	}
	r.look(ctx, &planned)
	// A warning must not differ from the plan, or Terraform replaces the cluster; the next refresh tells.
	planned.Paused = wanted
	resp.Diagnostics.Append(resp.State.Set(context.WithoutCancel(ctx), &planned)...)
	if err != nil {
		explainCreate(planned, err, &resp.Diagnostics)
	}
	if pausing != nil {
		resp.Diagnostics.AddWarning("The cluster is not paused",
			fmt.Sprintf("Cluster %s (%s) was created, but pausing it failed: %s. The next apply continues.",
				planned.Name.ValueString(), planned.ID.ValueString(), reasonOf(pausing)))
	}
}

// accept asks for the cluster, and sees it through even when Terraform is told to stop meanwhile.
func (r *clusterResource) accept(ctx context.Context, planned model) (*api.Cluster, error) {
	ctx, sent, cancel := api.Accepting(ctx)
	defer cancel()
	accepted, err := api.Read[api.Cluster](r.Session.ClusterCreateWithBody(ctx, nil, "application/json", creation(planned).Reader()))
	var failure *api.Failure
	if !errors.As(err, &failure) || failure.Code != nameTaken || failure.ExistingId == nil {
		return accepted, err
	}
	// The API died at work on the first sending, and forgot its key: the name may be taken by it.
	since, mayBe := sent.RanSince()
	if !mayBe {
		return nil, err
	}
	if own := r.ownSince(ctx, *failure.ExistingId, planned, since); own != nil {
		return own, nil
	}
	return nil, err
}

// ownSince is the cluster that was just asked for: made since, by the operation that is still its last,
// and as it was asked for. Nil where it is another one, or where that cannot be told.
func (r *clusterResource) ownSince(ctx context.Context, id string, planned model, since time.Time) *api.Cluster {
	cluster, err := api.Read[api.Cluster](r.Session.ClusterGet(ctx, id))
	if err != nil || cluster.Status.OperationId == nil || !isAskedFor(cluster, planned) {
		return nil
	}
	last, err := api.Read[api.Operation](r.Session.OperationGet(ctx, *cluster.Status.OperationId, nil))
	if err != nil || last.Kind != "cluster.create" || last.CreatedAt.Before(since) {
		return nil
	}
	return cluster
}

// isAskedFor tells whether the cluster has everything that its creation would ask for.
func isAskedFor(cluster *api.Cluster, planned model) bool {
	seen := planned
	seen.take(cluster)
	if !isSet(planned.PlaintextListener) && !cluster.Spec.PlaintextListener {
		// A creation that leaves the listener out turns it on.
		return false
	}
	return maps.Equal(textsOf(seen.Labels), textsOf(planned.Labels)) && isWithin(creation(planned), creation(seen))
}

func isWithin(asked, found api.Patch) bool {
	for name, value := range asked {
		block, isBlock := value.(api.Patch)
		if !isBlock {
			if !reflect.DeepEqual(value, found[name]) {
				return false
			}
			continue
		}
		if seen, _ := found[name].(api.Patch); !isWithin(block, seen) {
			return false
		}
	}
	return true
}

// look refreshes the model as well as it can: also where the apply was interrupted, within seconds.
func (r *clusterResource) look(ctx context.Context, known *model) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLookTimeout)
	defer cancel()
	if cluster, err := api.Read[api.Cluster](r.Session.ClusterGet(ctx, known.ID.ValueString())); err == nil {
		known.take(cluster)
	}
}

// refuse says why a cluster cannot be created, or renamed to a name that is taken.
func refuse(planned model, err error, diags *diag.Diagnostics) {
	name := planned.Name.ValueString()
	var failure *api.Failure
	if errors.As(err, &failure) && failure.Code == nameTaken {
		importID := "<environment>/" + name
		if failure.ExistingId != nil {
			importID = *failure.ExistingId
		}
		diags.AddAttributeError(path.Root("name"), "The cluster name is taken",
			fmt.Sprintf("%s\nTo manage that cluster, import it: terraform import <address> %s", err, importID))
		return
	}
	diags.AddError("Creating cluster "+name+" failed", err.Error())
}

// explainCreate says how a creation stands that did not succeed. Terraform replaces what a failed
// creation left behind, so the cluster is kept by a warning unless replacing is what was asked for.
func explainCreate(planned model, err error, diags *diag.Diagnostics) {
	name, id := planned.Name.ValueString(), planned.ID.ValueString()
	var failed *api.WorkFailed
	if !errors.As(err, &failed) {
		diags.AddWarning("The cluster is still being created",
			fmt.Sprintf("Waiting for cluster %s (%s) ended: %s. Operation %s continues; the next apply waits for it again.",
				name, id, reasonOf(err), planned.LastOperationID.ValueString()))
		return
	}
	text := fmt.Sprintf("Cluster %s (%s): %s.", name, id, failed)
	if planned.OnCreateFailure.ValueString() == taintOnFailure {
		diags.AddError("The cluster could not be created", text+" The next apply replaces it (on_create_failure = \"taint\").")
		return
	}
	diags.AddWarning("The cluster could not be created", text+" It is kept, and the next apply retries the operation in place.")
}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "the time limit of the configuration has passed"
	case errors.Is(err, context.Canceled):
		return "Terraform was told to stop"
	}
	return err.Error()
}

func (r *clusterResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var known model
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	r.Session.Clusters.Store(known.ID.ValueString(), true)
	cluster, err := api.Read[api.Cluster](r.Session.ClusterGet(ctx, known.ID.ValueString()))
	if api.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		session.Report(&resp.Diagnostics, "Reading cluster "+known.ID.ValueString(), err)
		return
	}
	switch string(cluster.Status.Phase) {
	case phasePendingPurge:
		resp.Diagnostics.AddWarning("The cluster is deleted",
			fmt.Sprintf("Cluster %s (%s) was deleted outside of Terraform and its data is kept (%s). Restore it in the console to keep it; an apply would create another one.",
				cluster.Spec.Name, cluster.Metadata.Id, cluster.Status.Phase))
		resp.State.RemoveResource(ctx)
		return
	}
	known.take(cluster)
	resp.Diagnostics.Append(resp.State.Set(ctx, &known)...)
	marked, diags := req.Private.GetKey(ctx, unfinishedKey)
	resp.Diagnostics.Append(diags...)
	failed, err := r.hasFailed(ctx, cluster)
	switch {
	case err != nil:
		session.Report(&resp.Diagnostics, "Reading the last operation of cluster "+known.ID.ValueString(), err)
	case failed:
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, unfinishedKey, []byte("true"))...)
	case isUnfinished(marked) && isDone(cluster):
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, unfinishedKey, []byte("null"))...)
	}
}

// isDone tells whether the cluster is what its spec says: somebody else has brought it there, or has taken
// back what was asked for. Whether its brokers are well does not matter.
func isDone(cluster *api.Cluster) bool {
	return !isAtWork(string(cluster.Status.Phase)) && !isBehind(cluster)
}

// hasFailed tells whether the cluster is not what its spec says since a change failed: also where the run
// that wanted it was killed, and could not note it. What it shows of itself is what was asked for, so no
// value would differ in a plan.
func (r *clusterResource) hasFailed(ctx context.Context, cluster *api.Cluster) (bool, error) {
	if isAtWork(string(cluster.Status.Phase)) || !isBehind(cluster) || cluster.Status.OperationId == nil {
		return false, nil
	}
	last, err := api.Read[api.Operation](r.Session.OperationGet(ctx, *cluster.Status.OperationId, nil))
	return err == nil && hasEnded(last, "FAILED"), err
}

func (r *clusterResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var known model
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	patience, diags := known.Timeouts.Delete(ctx, deleteTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := r.remove(ctx, known)
	if err == nil {
		return
	}
	id := known.ID.ValueString()
	text := fmt.Sprintf("%s\nThe cluster (%s) stays in the state; apply again to continue.", err, id)
	if session.IsInterrupted(err) {
		text = fmt.Sprintf("Waiting ended: %s. What was begun goes on; the next apply waits for it. The cluster (%s) stays in the state until then.", reasonOf(err), id)
	}
	resp.Diagnostics.AddError("Deleting cluster "+known.Name.ValueString()+" failed", text)
}

// remove deletes the cluster and waits for the end of it. Each time it looks first: a deletion whose
// answer was lost, or that another run began, is waited for and never asked for again, since the data
// that it keeps must not go with a second one.
func (r *clusterResource) remove(ctx context.Context, known model) error {
	id := known.ID.ValueString()
	for range roundsMax {
		cluster, err := api.Read[api.Cluster](r.Session.ClusterGet(ctx, id))
		if api.IsNotFound(err) || (err == nil && string(cluster.Status.Phase) == phasePendingPurge) {
			return nil
		}
		if err != nil {
			return err
		}
		if isAtWork(string(cluster.Status.Phase)) {
			if err := awaitEnd(ctx, r.Session.Client, cluster); err != nil {
				return err
			}
			continue
		}
		operation, err := api.Read[api.Operation](r.Session.ClusterDelete(ctx, id, deletion(known)))
		switch {
		case api.IsNotFound(err):
			return nil
		case api.HasCode(err, "cluster_busy"):
			if cluster, err = api.Read[api.Cluster](r.Session.ClusterGet(ctx, id)); err == nil {
				err = awaitEnd(ctx, r.Session.Client, cluster)
			}
			if err != nil && !api.IsNotFound(err) {
				return err
			}
			continue
		case err != nil:
			return err
		}
		_, err = api.Wait(ctx, r.Session.Client, operation.Id)
		return err
	}
	return fmt.Errorf("cluster %s is still being worked on after %d operations; apply again", id, roundsMax)
}

// whenQuiet begins an operation on the cluster and waits for its end. Where another one is at work it
// waits for that first, since a cluster has one operation at a time.
func (r *clusterResource) whenQuiet(ctx context.Context, clusterID string, begin func() (operationID string, err error)) error {
	for range roundsMax {
		operationID, err := begin()
		if err == nil && operationID == "" {
			return nil
		}
		if err == nil {
			_, err = api.Wait(ctx, r.Session.Client, operationID)
			return err
		}
		if !api.HasCode(err, "cluster_busy") {
			return err
		}
		cluster, err := api.Read[api.Cluster](r.Session.ClusterGet(ctx, clusterID))
		if err != nil {
			return err
		}
		if err := awaitCurrent(ctx, r.Session.Client, cluster); err != nil {
			return err
		}
	}
	return fmt.Errorf("cluster %s is still being worked on after %d operations; apply again", clusterID, roundsMax)
}

// ImportState takes `clu_…` and `<environment>/<cluster>` with names or ids.
func (r *clusterResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	cluster, err := Find(ctx, r.Session.Client, req.ID)
	if err != nil {
		resp.Diagnostics.AddError("The cluster cannot be found", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), types.StringValue(cluster.Metadata.Id))...)
}
