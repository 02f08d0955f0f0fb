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
	// What was refused leaves the mark as it was.
	mark := unfinished
	switch {
	case err == nil:
		mark = []byte("null")
	case interrupted || !isRefused(err):
		mark = []byte("true")
	}
	if mark != nil {
		resp.Diagnostics.Append(resp.Private.SetKey(context.WithoutCancel(ctx), unfinishedKey, mark)...)
	}
	if err != nil {
		explainUpdate(before, planned, interrupted, err, &resp.Diagnostics)
	}
}

// isRefused tells whether the API answered that it does not do what was asked: nothing has begun.
func isRefused(err error) bool {
	var unheard *unheardError
	var failure *api.Failure
	return !errors.As(err, &unheard) && errors.As(err, &failure) && failure.Status < http.StatusInternalServerError
}

// unheardError is the end of a wait for an operation that was accepted: whatever it says, the operation
// goes on, or has ended, without being heard of.
type unheardError struct{ cause error }

func (u *unheardError) Error() string { return u.cause.Error() }

func (u *unheardError) Unwrap() error { return u.cause }

// afterAcceptance keeps in mind that an operation was accepted, where its id is known.
func afterAcceptance(operationID string, err error) error {
	if err == nil || operationID == "" {
		return err
	}
	return &unheardError{cause: err}
}

// change makes the cluster what the plan says. The plan's own change is tried before a failed operation
// is repeated: it may be what repairs the cluster.
func (r *clusterResource) change(ctx context.Context, before, planned model, unfinished bool) error {
	id := before.ID.ValueString()
	found, err := r.settle(ctx, id)
	if err != nil {
		return err
	}
	patches := patchesOf(before, planned)
	if isFailedDeletion(found.last) && len(patches) == 0 {
		return errors.New(deletionFailed(found.last))
	}
	mayRetry := found.wantsRetry(unfinished)
	repeat := func() error {
		if !isAs(found.cluster, before) && !isAs(found.cluster, planned) {
			return fmt.Errorf("operation %s (%s) ended as %s, and the cluster's settings are not what was planned: somebody changed them meanwhile; plan again",
				found.last.Id, found.last.Kind, found.last.Phase)
		}
		return r.retry(ctx, found.last)
	}
	began := false
	for _, patch := range patches {
		operationID, err := r.patch(ctx, id, patch, found.last)
		if mayRetry && api.HasCode(err, "cluster_not_ready") {
			mayRetry = false
			if err := repeat(); err != nil {
				return err
			}
			operationID, err = r.patch(ctx, id, patch, found.last)
		}
		if err != nil {
			return err
		}
		began = began || operationID != ""
	}
	if began || !mayRetry {
		return nil
	}
	return repeat()
}

// settled is a cluster on which nothing works.
type settled struct {
	cluster *api.Cluster
	// last of its operations; nil where there was none.
	last *api.Operation
}

// wantsRetry tells whether the cluster lacks what its last operation was to make. The API takes a change
// back that ended before anything was begun: then no apply carries it out any more, nor one that is in
// effect. What somebody cancelled stays so, unless an apply had wanted it or there is no cluster without it.
func (s *settled) wantsRetry(unfinished bool) bool {
	isFailed := string(s.cluster.Status.Phase) == phaseFailed
	if !isFailed && !isBehind(s.cluster) {
		return false
	}
	return hasEnded(s.last, "FAILED") || (hasEnded(s.last, "CANCELLED") && (unfinished || isFailed))
}

// isBehind tells whether the cluster's spec is not in effect yet.
func isBehind(cluster *api.Cluster) bool {
	return cluster.Status.ObservedRevision < cluster.Metadata.Revision
}

// isAs tells whether the cluster's spec is what the model says, as far as an update can change it.
func isAs(cluster *api.Cluster, known model) bool {
	seen := known
	seen.take(cluster)
	return len(patchesOf(seen, known)) == 0
}

// settle waits until nothing works on the cluster.
func (r *clusterResource) settle(ctx context.Context, id string) (*settled, error) {
	for range roundsMax {
		cluster, err := api.Read[api.Cluster](r.Session.ClusterGet(ctx, id))
		if api.IsNotFound(err) || (err == nil && string(cluster.Status.Phase) == phasePendingPurge) {
			return nil, errors.New("it is deleted; restore it in the console where its data is kept, or apply again to make another one")
		}
		if err != nil {
			return nil, err
		}
		if cluster.Status.OperationId == nil {
			return &settled{cluster: cluster}, nil
		}
		last, err := api.Wait(ctx, r.Session.Client, *cluster.Status.OperationId)
		var failed *api.WorkFailed
		if err != nil && !errors.As(err, &failed) {
			return nil, err
		}
		if !isAtWork(string(cluster.Status.Phase)) {
			return &settled{cluster: cluster, last: last}, nil
		}
	}
	return nil, fmt.Errorf("it is still being worked on after %d operations", roundsMax)
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
		return operationID, afterAcceptance(operationID, err)
	}
	operationID, err = r.begunUnheard(ctx, id, last)
	return operationID, afterAcceptance(operationID, err)
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
	"cluster.restart": true, "cluster.restore": true, "cluster.reconcile": true,
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
		"or bring the cluster back with POST /v1/clusters/%s/restore, which is refused where the deletion has begun to take data away that was not to be kept.",
		&api.WorkFailed{Operation: last}, last.Target.Id)
}

func (r *clusterResource) retry(ctx context.Context, last *api.Operation) error {
	operation, err := api.Read[api.Operation](r.Session.OperationRetry(ctx, last.Id, nil))
	if err != nil {
		return err
	}
	_, err = api.Wait(ctx, r.Session.Client, operation.Id)
	return afterAcceptance(operation.Id, err)
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
			fmt.Sprintf("Waiting for cluster %s (%s) ended: %s. Operation %s continues; the next apply waits for it again.",
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
