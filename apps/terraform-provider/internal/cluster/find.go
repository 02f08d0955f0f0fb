package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace/terraform-provider-millrace/internal/api"
	environments "github.com/millrace/terraform-provider-millrace/internal/environment"
)

// Find looks a cluster up by `clu_…`, or by `<environment>/<cluster>` with names or ids. A name is never
// that of a cluster which is deleted: only its id finds one whose data is still kept.
func Find(ctx context.Context, client *api.Client, id string) (*api.Cluster, error) {
	if strings.HasPrefix(id, "clu_") && !strings.Contains(id, "/") {
		return api.Read[api.Cluster](client.ClusterGet(ctx, id))
	}
	environment, name, ok := strings.Cut(id, "/")
	if !ok || environment == "" || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("%q names no cluster; expected clu_… or <environment>/<cluster>", id)
	}
	found, err := environments.Find(ctx, client, environment)
	if err != nil {
		return nil, err
	}
	clusters, err := List(ctx, client, &found.Id)
	if err != nil {
		return nil, err
	}
	for _, cluster := range clusters {
		if cluster.Metadata.Id == name || (cluster.Spec.Name == name && !isDeleted(&cluster)) {
			return &cluster, nil
		}
	}
	return nil, fmt.Errorf("environment %s has no cluster %s", environment, name)
}

func isDeleted(cluster *api.Cluster) bool {
	phase := string(cluster.Status.Phase)
	return phase == phaseDeleting || phase == phasePendingPurge
}

// List reads every cluster, of one environment where that is given.
func List(ctx context.Context, client *api.Client, environmentID *string) ([]api.Cluster, error) {
	return api.All(func(size int, token *string) ([]api.Cluster, *string, error) {
		params := &api.ClusterListParams{PageSize: &size, PageToken: token, EnvironmentId: environmentID}
		page, err := api.Read[api.ClusterPage](client.ClusterList(ctx, params))
		if err != nil {
			return nil, nil, err
		}
		return page.Items, page.NextPageToken, nil
	})
}
