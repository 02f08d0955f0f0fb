package cluster

import (
	"context"
	"errors"
	"fmt"
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
	// acceptTimeout is what the API has to accept a cluster, retries included. It holds even where
	// Terraform is interrupted: a cluster that was made and whose id is lost would be nobody's.
	acceptTimeout = 60 * time.Second
	// lastLookTimeout is for reading what an interrupted apply leaves behind.
	lastLookTimeout = 5 * time.Second
)

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
	planned.take(accepted)
	// From here on the id stands in the state, whatever happens to this process.
	resp.Diagnostics.Append(resp.State.Set(ctx, &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err = api.Wait(waiting, r.Session.Client, planned.LastOperationID.ValueString())
	r.look(ctx, &planned)
	resp.Diagnostics.Append(resp.State.Set(context.WithoutCancel(ctx), &planned)...)
	if err != nil {
		explainCreate(planned, err, &resp.Diagnostics)
	}
}

// accept asks for the cluster, and sees it through even when Terraform is told to stop meanwhile.
func (r *clusterResource) accept(ctx context.Context, planned model) (*api.Cluster, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), acceptTimeout)
	defer cancel()
	return api.Read[api.Cluster](r.Session.ClusterCreateWithBody(ctx, nil, "application/json", creation(planned).Reader()))
}

// look refreshes the model as well as it can: also where the apply was interrupted, within seconds.
func (r *clusterResource) look(ctx context.Context, known *model) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLookTimeout)
	defer cancel()
	if cluster, err := api.Read[api.Cluster](r.Session.ClusterGet(ctx, known.ID.ValueString())); err == nil {
		known.take(cluster)
	}
}

func refuse(planned model, err error, diags *diag.Diagnostics) {
	name := planned.Name.ValueString()
	var failure *api.Failure
	if errors.As(err, &failure) && failure.Code == "cluster_name_taken" {
		importID := "<environment>/" + name
		if failure.ExistingId != nil {
			importID = *failure.ExistingId
		}
		diags.AddAttributeError(path.Root("name"), "The cluster's name is taken",
			fmt.Sprintf("%s\nIf that cluster is meant, take it over with: terraform import <address> %s", err, importID))
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
			fmt.Sprintf("Waiting for cluster %s (%s) ended: %s. Operation %s goes on; the next apply waits for it again.",
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
	case phaseDeleting, phasePendingPurge:
		resp.Diagnostics.AddWarning("The cluster is deleted",
			fmt.Sprintf("Cluster %s (%s) was deleted outside of Terraform and is %s. Restore it in the console if it is still wanted; applying would make another one.",
				cluster.Spec.Name, cluster.Metadata.Id, cluster.Status.Phase))
		resp.State.RemoveResource(ctx)
		return
	}
	known.take(cluster)
	resp.Diagnostics.Append(resp.State.Set(ctx, &known)...)
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
	id := known.ID.ValueString()
	err := r.whenQuiet(ctx, id, func() (string, error) {
		operation, err := api.Read[api.Operation](r.Session.ClusterDelete(ctx, id, deletion(known)))
		if err != nil {
			return "", err
		}
		return operation.Id, nil
	})
	if err == nil || api.IsNotFound(err) {
		return
	}
	resp.Diagnostics.AddError("Deleting cluster "+known.Name.ValueString()+" failed",
		fmt.Sprintf("%s\nThe cluster (%s) stays in the state; apply again to continue.", err, id))
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
