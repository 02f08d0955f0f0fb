package environment

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"

	"github.com/millrace/terraform-provider-millrace/internal/session"
)

// NewDataSource makes the data source `millrace_environment`.
func NewDataSource() datasource.DataSource {
	return &session.DataSource[model]{
		Name: "environment",
		Fields: schema.Schema{
			MarkdownDescription: "An environment, by its id or its name.",
			Attributes: map[string]schema.Attribute{
				"id":         schema.StringAttribute{Optional: true, Computed: true, MarkdownDescription: "The environment's id (`env_…`); this or `name`."},
				"name":       schema.StringAttribute{Optional: true, Computed: true, MarkdownDescription: "The environment's name; this or `id`."},
				"created_at": schema.StringAttribute{Computed: true, MarkdownDescription: "When it was created: RFC 3339, UTC."},
			},
		},
		Fetch: func(ctx context.Context, session *session.Session, asked *model) error {
			if asked.ID.IsNull() == asked.Name.IsNull() {
				return errors.New("give either id or name")
			}
			wanted := asked.ID.ValueString() + asked.Name.ValueString()
			environment, err := Find(ctx, session.Client, wanted)
			if err == nil {
				asked.take(environment)
			}
			return err
		},
	}
}

type listModel struct {
	Environments []model `tfsdk:"environments"`
}

// NewListDataSource makes the data source `millrace_environments`.
func NewListDataSource() datasource.DataSource {
	return &session.DataSource[listModel]{
		Name: "environments",
		Fields: schema.Schema{
			MarkdownDescription: "Every environment of the organization, oldest first.",
			Attributes: map[string]schema.Attribute{
				"environments": schema.ListNestedAttribute{
					Computed:            true,
					MarkdownDescription: "The environments.",
					NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
						"id":         schema.StringAttribute{Computed: true, MarkdownDescription: "The environment's id."},
						"name":       schema.StringAttribute{Computed: true, MarkdownDescription: "Its name."},
						"created_at": schema.StringAttribute{Computed: true, MarkdownDescription: "When it was created."},
					}},
				},
			},
		},
		Fetch: func(ctx context.Context, session *session.Session, asked *listModel) error {
			environments, err := List(ctx, session.Client)
			if err != nil {
				return err
			}
			asked.Environments = make([]model, len(environments))
			for at := range environments {
				asked.Environments[at].take(&environments[at])
			}
			return nil
		},
	}
}
