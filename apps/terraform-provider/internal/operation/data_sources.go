// Package operation holds the data sources of long work: what is done to clusters, and how it stands.
package operation

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/session"
)

// operationsMax of one cluster are read: the latest.
const operationsMax = 100

type shown struct {
	ID        types.String `tfsdk:"id"`
	Kind      types.String `tfsdk:"kind"`
	ClusterID types.String `tfsdk:"cluster_id"`
	Phase     types.String `tfsdk:"phase"`
	Done      types.Bool   `tfsdk:"done"`
	Percent   types.Int64  `tfsdk:"percent"`
	Error     types.String `tfsdk:"error"`
	CreatedAt types.String `tfsdk:"created_at"`
	EndedAt   types.String `tfsdk:"ended_at"`
}

func show(operation *api.Operation) shown {
	seen := shown{
		ID: types.StringValue(operation.Id), Kind: types.StringValue(string(operation.Kind)),
		ClusterID: types.StringValue(operation.Target.Id), Phase: types.StringValue(string(operation.Phase)),
		Done: types.BoolValue(operation.Done), Percent: types.Int64Value(int64(operation.Progress.Percent)),
		CreatedAt: types.StringValue(operation.CreatedAt.UTC().Format(time.RFC3339)),
	}
	if operation.Error != nil {
		seen.Error = types.StringValue(operation.Error.Message)
	}
	if operation.EndedAt != nil {
		seen.EndedAt = types.StringValue(operation.EndedAt.UTC().Format(time.RFC3339))
	}
	return seen
}

func shownFields() map[string]schema.Attribute {
	text := func(description string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	return map[string]schema.Attribute{
		"id":         text("The operation's id (`op_…`)."),
		"kind":       text("Its kind, for example `cluster.create`."),
		"cluster_id": text("The cluster that it works on."),
		"phase":      text("`PENDING`, `RUNNING`, `SUCCEEDED`, `FAILED` …"),
		"done":       schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether it has ended."},
		"percent":    schema.Int64Attribute{Computed: true, MarkdownDescription: "Progress in percent."},
		"error":      text("Why it failed; null if it did not."),
		"created_at": text("When it was requested: RFC 3339, UTC."),
		"ended_at":   text("When it ended; null until then."),
	}
}

// NewDataSource makes the data source `millrace_operation`.
func NewDataSource() datasource.DataSource {
	fields := shownFields()
	fields["id"] = schema.StringAttribute{Required: true, MarkdownDescription: "The operation's id (`op_…`)."}
	return &session.DataSource[shown]{
		Name:   "operation",
		Fields: schema.Schema{MarkdownDescription: "The current state of an operation on a cluster.", Attributes: fields},
		Fetch: func(ctx context.Context, session *session.Session, asked *shown) error {
			operation, err := api.Read[api.Operation](session.OperationGet(ctx, asked.ID.ValueString(), nil))
			if err == nil {
				*asked = show(operation)
			}
			return err
		},
	}
}

type listModel struct {
	ClusterID  types.String `tfsdk:"cluster_id"`
	Operations []shown      `tfsdk:"operations"`
}

// NewListDataSource makes the data source `millrace_operations`.
func NewListDataSource() datasource.DataSource {
	return &session.DataSource[listModel]{
		Name: "operations",
		Fields: schema.Schema{
			MarkdownDescription: "The latest operations, newest first, at most 100.",
			Attributes: map[string]schema.Attribute{
				"cluster_id": schema.StringAttribute{Optional: true, MarkdownDescription: "Only operations of this cluster."},
				"operations": schema.ListNestedAttribute{
					Computed: true, MarkdownDescription: "The operations.",
					NestedObject: schema.NestedAttributeObject{Attributes: shownFields()},
				},
			},
		},
		Fetch: func(ctx context.Context, session *session.Session, asked *listModel) error {
			size := operationsMax
			params := &api.OperationListParams{PageSize: &size, ClusterId: asked.ClusterID.ValueStringPointer()}
			page, err := api.Read[api.OperationPage](session.OperationList(ctx, params))
			if err != nil {
				return err
			}
			asked.Operations = []shown{}
			for at := range page.Items {
				asked.Operations = append(asked.Operations, show(&page.Items[at]))
			}
			return nil
		},
	}
}
