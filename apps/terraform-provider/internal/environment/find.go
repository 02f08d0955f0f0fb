package environment

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

// Find looks an environment up by `env_…` or by its name.
func Find(ctx context.Context, client *api.Client, nameOrID string) (*api.Environment, error) {
	if strings.HasPrefix(nameOrID, "env_") {
		return api.Read[api.Environment](client.EnvironmentGet(ctx, nameOrID))
	}
	environments, err := List(ctx, client)
	if err != nil {
		return nil, err
	}
	for _, environment := range environments {
		if environment.Name == nameOrID {
			return &environment, nil
		}
	}
	return nil, fmt.Errorf("there is no environment %s", nameOrID)
}

// List reads every environment, oldest first.
func List(ctx context.Context, client *api.Client) ([]api.Environment, error) {
	return api.All(func(size int, token *string) ([]api.Environment, *string, error) {
		page, err := api.Read[api.EnvironmentPage](client.EnvironmentList(ctx, &api.EnvironmentListParams{PageSize: &size, PageToken: token}))
		if err != nil {
			return nil, nil, err
		}
		return page.Items, page.NextPageToken, nil
	})
}
