package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

// roundsMax ends a wait for a cluster on which one operation follows the other for ever.
const roundsMax = 20

// AwaitQuiet returns once no operation works on the cluster and it runs. It fails at once where the
// cluster is paused, failed or deleted: waiting would not help.
func AwaitQuiet(ctx context.Context, client *api.Client, clusterID string) error {
	for range roundsMax {
		cluster, err := api.Read[api.Cluster](client.ClusterGet(ctx, clusterID))
		if err != nil {
			return err
		}
		switch phase := string(cluster.Status.Phase); phase {
		case phaseRunning:
			return nil
		case phaseProvisioning, phaseUpdating:
			if err := awaitCurrent(ctx, client, cluster); err != nil {
				return err
			}
		default:
			return fmt.Errorf("cluster %s (%s) is %s", cluster.Spec.Name, clusterID, phase)
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
