package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

// roundsMax ends a wait for a cluster on which one operation follows the other for ever.
const roundsMax = 20

// NotServing is a cluster that has no broker to ask, and gets none by waiting.
type NotServing struct {
	Name, ID, Phase string
}

func (n *NotServing) Error() string {
	return fmt.Sprintf("cluster %s (%s) is %s", n.Name, n.ID, n.Phase)
}

// IsDeleted tells whether the cluster is gone or going, with all that is in it.
func (n *NotServing) IsDeleted() bool {
	return n.Phase == phaseDeleting || n.Phase == phasePendingPurge
}

// AwaitQuiet returns once no operation works on the cluster and it runs. It fails at once with
// [NotServing] where the cluster is paused, failed or deleted: waiting would not help.
func AwaitQuiet(ctx context.Context, client *api.Client, clusterID string) error {
	for range roundsMax {
		cluster, err := api.Read[api.Cluster](client.ClusterGet(ctx, clusterID))
		if err != nil {
			return err
		}
		switch phase := string(cluster.Status.Phase); phase {
		case phaseRunning, phaseDegraded:
			return nil
		case phaseProvisioning, phaseUpdating:
			if err := awaitCurrent(ctx, client, cluster); err != nil {
				return err
			}
		default:
			return &NotServing{Name: cluster.Spec.Name, ID: clusterID, Phase: phase}
		}
	}
	return fmt.Errorf("cluster %s is still being worked on after %d operations", clusterID, roundsMax)
}

// awaitCurrent waits for the operation at work on the cluster; how it ends shows on the cluster.
func awaitCurrent(ctx context.Context, client *api.Client, cluster *api.Cluster) error {
	if cluster.Status.OperationId == nil {
		return nil
	}
	_, err := api.Wait(ctx, client, *cluster.Status.OperationId)
	var failed *api.WorkFailed
	if errors.As(err, &failed) {
		return nil
	}
	return err
}

// awaitEnd is [awaitCurrent] for whoever wants the cluster gone: that a deletion failed is an error.
func awaitEnd(ctx context.Context, client *api.Client, cluster *api.Cluster) error {
	if string(cluster.Status.Phase) != phaseDeleting || cluster.Status.OperationId == nil {
		return awaitCurrent(ctx, client, cluster)
	}
	_, err := api.Wait(ctx, client, *cluster.Status.OperationId)
	return err
}
