package apikey

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/session"
)

type shown struct {
	ID         types.String `tfsdk:"id"`
	Name       types.String `tfsdk:"name"`
	Role       types.String `tfsdk:"role"`
	Hint       types.String `tfsdk:"hint"`
	CreatedAt  types.String `tfsdk:"created_at"`
	ExpiresAt  types.String `tfsdk:"expires_at"`
	LastUsedAt types.String `tfsdk:"last_used_at"`
}

type listModel struct {
	APIKeys []shown `tfsdk:"api_keys"`
}

// NewListDataSource makes the data source `millrace_api_keys`.
func NewListDataSource() datasource.DataSource {
	text := func(description string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	return &session.DataSource[listModel]{
		Name: "api_keys",
		Fields: schema.Schema{
			MarkdownDescription: "The API keys that are not revoked, newest first, without their secrets.",
			Attributes: map[string]schema.Attribute{
				"api_keys": schema.ListNestedAttribute{
					Computed: true, MarkdownDescription: "The keys.",
					NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
						"id": text("The key's id."), "name": text("What it is for."), "role": text("What it may do."),
						"hint":         text("The first characters of the secret."),
						"created_at":   text("When it was made."),
						"expires_at":   text("Expiry time; null for never."),
						"last_used_at": text("When it was last used; null for never."),
					}},
				},
			},
		},
		Fetch: func(ctx context.Context, session *session.Session, asked *listModel) error {
			keys, err := api.All(func(size int, token *string) ([]api.ApiKey, *string, error) {
				page, err := api.Read[api.ApiKeyPage](session.ApiKeyList(ctx, &api.ApiKeyListParams{PageSize: &size, PageToken: token}))
				if err != nil {
					return nil, nil, err
				}
				return page.Items, page.NextPageToken, nil
			})
			if err != nil {
				return err
			}
			asked.APIKeys = []shown{}
			for _, key := range keys {
				asked.APIKeys = append(asked.APIKeys, shown{
					ID: types.StringValue(key.Id), Name: types.StringValue(key.Name), Role: types.StringValue(string(key.Role)),
					Hint: types.StringValue(key.Hint), CreatedAt: types.StringValue(key.CreatedAt.UTC().Format(timeLayout)),
					ExpiresAt: timeOf(key.ExpiresAt), LastUsedAt: timeOf(key.LastUsedAt),
				})
			}
			return nil
		},
	}
}

func timeOf(at *time.Time) types.String {
	if at == nil {
		return types.StringNull()
	}
	return types.StringValue(at.UTC().Format(timeLayout))
}
