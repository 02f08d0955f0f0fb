// Package environment holds the resource and the data sources of environments, which group clusters.
package environment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/session"
)

const (
	nameMax = 100
	// inhabitantsMax are named where an environment cannot be deleted.
	inhabitantsMax = 20
	// timeLayout is RFC 3339 with milliseconds, as the API writes it.
	timeLayout = "2006-01-02T15:04:05.000Z"
)

type environmentResource struct {
	session.Configured
}

// NewResource makes `millrace_environment`.
func NewResource() resource.Resource { return &environmentResource{} }

var (
	_ resource.ResourceWithConfigure   = &environmentResource{}
	_ resource.ResourceWithImportState = &environmentResource{}
)

type model struct {
	ID        types.String `tfsdk:"id"`
	Name      types.String `tfsdk:"name"`
	CreatedAt types.String `tfsdk:"created_at"`
}

func (m *model) take(environment *api.Environment) {
	m.ID = types.StringValue(environment.Id)
	m.Name = types.StringValue(environment.Name)
	m.CreatedAt = types.StringValue(environment.CreatedAt.UTC().Format(timeLayout))
}

func (r *environmentResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_environment"
}

func (r *environmentResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.Take(req.ProviderData, &resp.Diagnostics)
}

func (r *environmentResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	stays := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "An environment groups clusters, for example `production`. It can be deleted when it is empty.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{Computed: true, PlanModifiers: stays, MarkdownDescription: "The environment's id (`env_…`)."},
			"name": schema.StringAttribute{
				Required: true, MarkdownDescription: "Unique within the organization. It can be changed.",
				Validators: []validator.String{stringvalidator.LengthBetween(1, nameMax)},
			},
			"created_at": schema.StringAttribute{Computed: true, PlanModifiers: stays, MarkdownDescription: "When it was created: RFC 3339, UTC."},
		},
	}
}

func (r *environmentResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var planned model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	body := api.EnvironmentCreateJSONRequestBody{Name: planned.Name.ValueString()}
	accepting, _, cancel := api.Accepting(ctx)
	defer cancel()
	environment, err := api.Read[api.Environment](r.Session.EnvironmentCreate(accepting, nil, body))
	var failure *api.Failure
	if errors.As(err, &failure) && failure.Code == "environment_name_taken" && failure.ExistingId != nil {
		resp.Diagnostics.AddAttributeError(path.Root("name"), "The environment name is taken",
			fmt.Sprintf("%s\nTo manage that environment, import it: terraform import <address> %s", err, *failure.ExistingId))
		return
	}
	if err != nil {
		session.Report(&resp.Diagnostics, "Creating environment "+body.Name, err)
		return
	}
	planned.take(environment)
	resp.Diagnostics.Append(resp.State.Set(context.WithoutCancel(ctx), &planned)...)
}

func (r *environmentResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var known model
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	environment, err := api.Read[api.Environment](r.Session.EnvironmentGet(ctx, known.ID.ValueString()))
	if api.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		session.Report(&resp.Diagnostics, "Reading environment "+known.ID.ValueString(), err)
		return
	}
	known.take(environment)
	resp.Diagnostics.Append(resp.State.Set(ctx, &known)...)
}

func (r *environmentResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var planned model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	patch := api.Patch{"name": planned.Name.ValueString()}
	environment, err := api.Read[api.Environment](r.Session.EnvironmentUpdateWithBody(ctx, planned.ID.ValueString(), api.MergePatch, patch.Reader()))
	if err != nil {
		session.Report(&resp.Diagnostics, "Renaming environment "+planned.ID.ValueString(), err)
		return
	}
	planned.take(environment)
	resp.Diagnostics.Append(resp.State.Set(ctx, &planned)...)
}

func (r *environmentResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var known model
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	err := api.Done(r.Session.EnvironmentDelete(ctx, known.ID.ValueString()))
	if api.HasCode(err, "environment_not_empty") {
		resp.Diagnostics.AddError("The environment "+known.Name.ValueString()+" has clusters", err.Error()+r.inhabitants(ctx, known.ID.ValueString()))
		return
	}
	if err != nil && !api.IsNotFound(err) {
		session.Report(&resp.Diagnostics, "Deleting environment "+known.Name.ValueString(), err)
	}
}

// inhabitants names the clusters that keep an environment from being deleted, and says what ends that.
func (r *environmentResource) inhabitants(ctx context.Context, id string) string {
	size := inhabitantsMax
	page, err := api.Read[api.ClusterPage](r.Session.ClusterList(ctx, &api.ClusterListParams{PageSize: &size, EnvironmentId: &id}))
	if err != nil {
		return ""
	}
	var text strings.Builder
	for _, each := range page.Items {
		fmt.Fprintf(&text, "\n  %s (%s) is %s", each.Spec.Name, each.Metadata.Id, each.Status.Phase)
		if each.Status.PurgeAt != nil {
			fmt.Fprintf(&text, ": its data is kept until %s", each.Status.PurgeAt.UTC().Format(time.RFC3339))
		}
	}
	if page.NextPageToken != nil {
		text.WriteString("\n  and more")
	}
	text.WriteString("\nA deleted cluster whose data is kept (PENDING_PURGE) belongs to its environment until that data is gone: " +
		"wait until then, or purge the cluster in the console. A cluster with retain_days = 0 leaves nothing behind.")
	return text.String()
}

// ImportState takes `env_…` and the environment's name.
func (r *environmentResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	environment, err := Find(ctx, r.Session.Client, req.ID)
	if err != nil {
		resp.Diagnostics.AddError("The environment cannot be found", fmt.Sprintf("%s: %s", req.ID, err))
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), environment.Id)...)
}
