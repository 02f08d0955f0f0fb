package session

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
)

// DataSource is a data source by what is different about it: its name, its schema, and how a model is
// completed from the API.
type DataSource[M any] struct {
	Configured
	// Name without the provider's prefix.
	Name   string
	Fields schema.Schema
	// Fetch completes the model, whose arguments are set.
	Fetch func(ctx context.Context, session *Session, model *M) error
}

// Metadata names the data source.
func (d *DataSource[M]) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + d.Name
}

// Configure keeps the session.
func (d *DataSource[M]) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	d.Take(req.ProviderData, &resp.Diagnostics)
}

// Schema describes it.
func (d *DataSource[M]) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = d.Fields
}

// Read fetches.
func (d *DataSource[M]) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model M
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := d.Fetch(ctx, d.Session, &model); err != nil {
		resp.Diagnostics.AddError("Reading millrace_"+d.Name+" failed", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}
