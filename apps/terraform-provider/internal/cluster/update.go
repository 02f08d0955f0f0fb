package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

// unfinishedKey marks in the private state that what an update wanted is not there yet: it was
// interrupted, its answer was lost, or its operation failed.
const unfinishedKey = "unfinished"

func isUnfinished(value []byte) bool { return string(value) == "true" }

// Update first waits for what an earlier apply left at work, changes what the plan changes, and retries
// what had failed where that is still needed.
func (r *clusterResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var before, planned model
	resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	patience, diags := planned.Timeouts.Update(ctx, updateTimeout)
	resp.Diagnostics.Append(diags...)
	unfinished, diags := req.Private.GetKey(ctx, unfinishedKey)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := r.change(waiting, before, planned, isUnfinished(unfinished))
	planned.keepFacts(before)
	r.look(ctx, &planned)
	resp.Diagnostics.Append(resp.State.Set(context.WithoutCancel(ctx), &planned)...)
	interrupted := waiting.Err() != nil
	mark := []byte("null")
	if err != nil && (interrupted || !isRefused(err)) {
		mark = []byte("true")
	}
	resp.Diagnostics.Append(resp.Private.SetKey(context.WithoutCancel(ctx), unfinishedKey, mark)...)
	if err != nil {
		explainUpdate(before, planned, interrupted, err, &resp.Diagnostics)
	}
}

// isRefused tells whether the API answered that it does not do what was asked: nothing has begun.
func isRefused(err error) bool {
	var failure *api.Failure
	return errors.As(err, &failure) && failure.Status < http.StatusInternalServerError
}

// change makes the cluster what the plan says. The plan's own change is tried before a failed operation
// is repeated: it may be what mends the cluster.
func (r *clusterResource) change(ctx context.Context, before, planned model, unfinished bool) error {
	id := before.ID.ValueString()
	last, phase, err := r.settle(ctx, id)
	if err != nil {
		return err
	}
	patches := patchesOf(before, planned)
	if isFailedDeletion(last) && len(patches) == 0 {
		return errors.New(deletionFailed(last))
	}
	// What somebody cancelled stays so, unless an apply had wanted it or there is no cluster without it.
	mayRetry := hasEnded(last, "FAILED") || (hasEnded(last, "CANCELLED") && (unfinished || phase == phaseFailed))
	began := false
	for _, patch := range patches {
		operationID, err := r.patch(ctx, id, patch, last)
		if mayRetry && api.HasCode(err, "cluster_not_ready") {
			mayRetry = false
			if err := r.retry(ctx, last); err != nil {
				return err
			}
			operationID, err = r.patch(ctx, id, patch, last)
		}
		if err != nil {
			return err
		}
		began = began || operationID != ""
	}
	if began || !mayRetry {
		return nil
	}
	return r.retry(ctx, last)
}

// settle waits until nothing works on the cluster. It returns the operation that was its last, nil where
// there was none, and the phase that the cluster is in.
func (r *clusterResource) settle(ctx context.Context, id string) (*api.Operation, string, error) {
	for range roundsMax {
		cluster, err := api.Read[api.Cluster](r.Session.ClusterGet(ctx, id))
		if api.IsNotFound(err) || (err == nil && string(cluster.Status.Phase) == phasePendingPurge) {
			return nil, "", errors.New("it is deleted; restore it in the console where its data is kept, or apply again to make another one")
		}
		if err != nil {
			return nil, "", err
		}
		phase := string(cluster.Status.Phase)
		if cluster.Status.OperationId == nil {
			return nil, phase, nil
		}
		last, err := api.Wait(ctx, r.Session.Client, *cluster.Status.OperationId)
		var failed *api.WorkFailed
		if err != nil && !errors.As(err, &failed) {
			return nil, "", err
		}
		if !isAtWork(phase) {
			return last, phase, nil
		}
	}
	return nil, "", fmt.Errorf("it is still being worked on after %d operations", roundsMax)
}

func isAtWork(phase string) bool {
	return phase == phaseProvisioning || phase == phaseUpdating || phase == phaseDeleting
}

// patch asks for a change and waits until it is made. The id of its operation is empty where the change
// took none.
func (r *clusterResource) patch(ctx context.Context, id string, patch api.Patch, last *api.Operation) (string, error) {
	operationID := ""
	err := r.whenQuiet(ctx, id, func() (string, error) {
		accepted, err := api.Read[accepted](r.Session.ClusterUpdateWithBody(ctx, id, nil, api.MergePatch, patch.Reader()))
		if err != nil {
			return "", err
		}
		operationID = accepted.OperationID
		return operationID, nil
	})
	if err != nil || operationID != "" {
		return operationID, err
	}
	return r.begunUnheard(ctx, id, last)
}

// begunUnheard waits for an operation whose acceptance was lost on the way: to the repeated request the
// API says that nothing is left to change.
func (r *clusterResource) begunUnheard(ctx context.Context, id string, last *api.Operation) (string, error) {
	cluster, err := api.Read[api.Cluster](r.Session.ClusterGet(ctx, id))
	if err != nil {
		return "", err
	}
	latest := cluster.Status.OperationId
	if latest == nil || (last != nil && last.Id == *latest) {
		return "", nil
	}
	operation, err := api.Wait(ctx, r.Session.Client, *latest)
	if operation != nil && !retryable[string(operation.Kind)] {
		return "", nil
	}
	return *latest, err
}

// retryable are the operations that an apply may repeat. What deletes is none of them: whoever applies
// wants the cluster.
var retryable = map[string]bool{
	"cluster.create": true, "cluster.update": true, "cluster.pause": true, "cluster.resume": true,
	"cluster.restore": true, "cluster.reconcile": true,
}

// hasEnded tells whether the operation ended so, and is one that an apply may repeat.
func hasEnded(last *api.Operation, phase string) bool {
	return last != nil && retryable[string(last.Kind)] && string(last.Phase) == phase
}

func isFailedDeletion(last *api.Operation) bool {
	if last == nil || last.Phase == "SUCCEEDED" || !last.Done {
		return false
	}
	return last.Kind == "cluster.delete" || last.Kind == "cluster.purge"
}

func deletionFailed(last *api.Operation) string {
	return fmt.Sprintf("Its last operation is a deletion that did not come to its end: %s. An apply does not repeat a deletion. "+
		"Finish it with terraform destroy, or by taking the resource out of the configuration; "+
		"or restore the cluster in the console, where its data is kept.", &api.WorkFailed{Operation: last})
}

func (r *clusterResource) retry(ctx context.Context, last *api.Operation) error {
	operation, err := api.Read[api.Operation](r.Session.OperationRetry(ctx, last.Id, nil))
	if err != nil {
		return err
	}
	_, err = api.Wait(ctx, r.Session.Client, operation.Id)
	return err
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
	text := fmt.Sprintf("Cluster %s (%s): %s", name, id, err)
	var failed *api.WorkFailed
	if errors.As(err, &failed) {
		text += "\nApply again to retry it in place."
	}
	diags.AddError("Changing cluster "+name+" failed", text)
}
