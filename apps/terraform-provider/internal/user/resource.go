// Package user holds the resource of a cluster's users. Their passwords are write-only: in neither state
// nor plan.
package user

import (
	"context"
	"fmt"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/cluster"
	"github.com/millrace/terraform-provider-millrace/internal/session"
)

const (
	nameMax     = 128
	passwordMin = 16
	passwordMax = 256
)

var (
	namePattern     = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._@-]*$`)
	passwordPattern = regexp.MustCompile(`^[\x20-\x7e]*$`)
)

type userResource struct {
	session.Configured
}

// NewResource makes `millrace_user`.
func NewResource() resource.Resource { return &userResource{} }

var (
	_ resource.ResourceWithConfigure   = &userResource{}
	_ resource.ResourceWithImportState = &userResource{}
)

type model struct {
	ID              types.String `tfsdk:"id"`
	ClusterID       types.String `tfsdk:"cluster_id"`
	Name            types.String `tfsdk:"name"`
	Password        types.String `tfsdk:"password_wo"`
	PasswordVersion types.Int64  `tfsdk:"password_wo_version"`
	Principal       types.String `tfsdk:"principal"`
}

func (m *model) take(principal string) {
	m.ID = types.StringValue(m.ClusterID.ValueString() + "/" + m.Name.ValueString())
	m.Principal = types.StringValue(principal)
	m.Password = types.StringNull()
}

func (r *userResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_user"
}

func (r *userResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.Take(req.ProviderData, &resp.Diagnostics)
}

func (r *userResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	stays := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	replaced := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A user that Kafka clients of a cluster sign in as, with SCRAM-SHA-256 or SCRAM-SHA-512. " +
			"The password is write-only: it is in neither state nor plan. Deleting a user leaves its ACLs and quotas.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				Computed: true, PlanModifiers: stays,
				MarkdownDescription: "`<cluster id>/<name>`, as `terraform import` takes it.",
			},
			"cluster_id": schema.StringAttribute{
				Required: true, PlanModifiers: replaced,
				MarkdownDescription: "The cluster (`clu_…`). Changing it creates another user.",
			},
			"name": schema.StringAttribute{
				Required: true, PlanModifiers: replaced,
				MarkdownDescription: "The user's name. Changing it creates another user.",
				Validators: []validator.String{
					stringvalidator.LengthBetween(1, nameMax),
					stringvalidator.RegexMatches(namePattern, "letters, digits, dot, underscore, hyphen and @, beginning with a letter or digit"),
				},
			},
			"password_wo": schema.StringAttribute{
				Required: true, WriteOnly: true, Sensitive: true,
				MarkdownDescription: "The password: 16 to 256 printable ASCII characters. Take it from an ephemeral resource or variable. It is sent when the user is created, and when `password_wo_version` changes.",
				Validators: []validator.String{
					stringvalidator.LengthBetween(passwordMin, passwordMax),
					stringvalidator.RegexMatches(passwordPattern, "printable ASCII characters only"),
				},
			},
			"password_wo_version": schema.Int64Attribute{
				Required:            true,
				MarkdownDescription: "Any number. A new one sets `password_wo` as the password of every mechanism that the user has.",
				Validators:          []validator.Int64{int64validator.AtLeast(0)},
			},
			"principal": schema.StringAttribute{
				Computed: true, PlanModifiers: stays,
				MarkdownDescription: "As ACLs name the user: `User:<name>`.",
			},
		},
	}
}

func (r *userResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var planned, config model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	clusterID := planned.ClusterID.ValueString()
	body := api.UserCreateJSONRequestBody{Name: planned.Name.ValueString(), Password: config.Password.ValueStringPointer()}
	user, err := cluster.Write(ctx, r.Session.Client, clusterID, func(ctx context.Context) (*api.ClusterUserWithPassword, error) {
		ctx, _, cancel := api.Accepting(ctx)
		defer cancel()
		return api.Read[api.ClusterUserWithPassword](r.Session.UserCreate(ctx, clusterID, nil, body))
	})
	if api.HasCode(err, "user_name_taken") {
		resp.Diagnostics.AddAttributeError(path.Root("name"), "The user already exists",
			fmt.Sprintf("Cluster %s has a user %s that this configuration did not create. To manage it, import it: terraform import <address> %s/%s",
				clusterID, body.Name, clusterID, body.Name))
		return
	}
	switch {
	case err == nil:
		planned.take(user.Principal)
	case api.HasCode(err, "idempotent_answer_not_kept"):
		// The first answer was lost on the way. It holds nothing that is not known: the password is ours.
		planned.take("User:" + body.Name)
	default:
		session.Report(&resp.Diagnostics, "Creating user "+body.Name, err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(context.WithoutCancel(ctx), &planned)...)
}

func (r *userResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var known model
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	user, err := api.Read[api.ClusterUser](r.Session.UserGet(ctx, known.ClusterID.ValueString(), known.Name.ValueString()))
	switch {
	case api.IsNotFound(err):
		resp.State.RemoveResource(ctx)
	case api.HasCode(err, "cluster_not_ready"):
		// A paused cluster has no broker to ask; its users are kept.
		resp.Diagnostics.AddWarning("The user was not refreshed",
			fmt.Sprintf("User %s is shown as it was last seen: %s", known.ID.ValueString(), err))
	case err != nil:
		session.Report(&resp.Diagnostics, "Reading user "+known.ID.ValueString(), err)
	default:
		known.take(user.Principal)
		resp.Diagnostics.Append(resp.State.Set(ctx, &known)...)
	}
}

// Update sets the password where its version changed; nothing else of a user changes in place.
func (r *userResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var planned, config model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	clusterID, name := planned.ClusterID.ValueString(), planned.Name.ValueString()
	body := api.UserRotateJSONRequestBody{Password: config.Password.ValueStringPointer()}
	_, err := cluster.Write(ctx, r.Session.Client, clusterID, func(ctx context.Context) (*api.ClusterUserWithPassword, error) {
		return api.Read[api.ClusterUserWithPassword](r.Session.UserRotate(ctx, clusterID, name, nil, body))
	})
	if err != nil && !api.HasCode(err, "idempotent_answer_not_kept") {
		session.Report(&resp.Diagnostics, "Setting the password of user "+planned.ID.ValueString(), err)
		return
	}
	planned.Password = types.StringNull()
	resp.Diagnostics.Append(resp.State.Set(context.WithoutCancel(ctx), &planned)...)
}

func (r *userResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var known model
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	clusterID := known.ClusterID.ValueString()
	err := cluster.Remove(ctx, r.Session.Client, clusterID, func(ctx context.Context) error {
		return api.Done(r.Session.UserDelete(ctx, clusterID, known.Name.ValueString()))
	})
	session.Report(&resp.Diagnostics, "Deleting user "+known.ID.ValueString(), err)
}

// ImportState takes `clu_…/<user>` and `<environment>/<cluster>/<user>` with names or ids. The password stays
// what it is until `password_wo_version` is applied.
func (r *userResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	clusterID, name, ok := cluster.SplitImport(ctx, r.Session.Client, req.ID, "user", &resp.Diagnostics)
	if !ok {
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), clusterID+"/"+name)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("cluster_id"), clusterID)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), name)...)
}
