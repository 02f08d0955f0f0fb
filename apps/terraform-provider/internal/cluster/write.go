package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

// readyTimeout is how long a write waits for a cluster that is just being worked on.
const readyTimeout = 10 * time.Minute

// Write runs a call that changes something in a cluster's broker. Where the cluster is being worked on, it
// waits for that first. It fails with [NotServing] where the cluster has no broker and gets none by waiting.
func Write[T any](ctx context.Context, client *api.Client, clusterID string, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	value, err := call(ctx)
	if !api.HasCode(err, "cluster_not_ready", "cluster_busy") {
		return value, err
	}
	if waitErr := AwaitQuiet(ctx, client, clusterID); waitErr != nil {
		var none T
		return none, errors.Join(err, waitErr)
	}
	return call(ctx)
}

// Remove is [Write] for a deletion. What is not there any more, or goes with its cluster, is deleted.
func Remove(ctx context.Context, client *api.Client, clusterID string, call func(context.Context) error) error {
	_, err := Write(ctx, client, clusterID, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	var notServing *NotServing
	if api.IsNotFound(err) || (errors.As(err, &notServing) && notServing.IsDeleted()) {
		return nil
	}
	if errors.As(err, &notServing) {
		return fmt.Errorf("%w\nNo broker is running to delete it. Resume or repair the cluster first; or, to delete the cluster as well, "+
			"remove the resource from the state (terraform state rm <address>) and destroy the cluster", err)
	}
	return err
}

// SplitImport reads the import id of something within a cluster: `clu_…/<name>` or
// `<environment>/<cluster>/<name>` with names or ids.
func SplitImport(ctx context.Context, client *api.Client, id, what string, diags *diag.Diagnostics) (clusterID, name string, ok bool) {
	at := strings.LastIndex(id, "/")
	if at <= 0 || at == len(id)-1 {
		diags.AddError("Invalid import id for a "+what,
			fmt.Sprintf("Got %q; expected <cluster id>/<%s>, or <environment>/<cluster>/<%s>.", id, what, what))
		return "", "", false
	}
	found, err := Find(ctx, client, id[:at])
	if err != nil {
		diags.AddError("The cluster of the "+what+" cannot be found", err.Error())
		return "", "", false
	}
	return found.Metadata.Id, id[at+1:], true
}
