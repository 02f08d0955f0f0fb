// Package acl holds the resource of a cluster's ACLs.
package acl

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/cluster"
	"github.com/millrace/terraform-provider-millrace/internal/session"
)

// separator of the parts of an id: no name of Kafka's has it.
const separator = "|"

var (
	resourceTypes = []string{"topic", "group", "cluster", "transactional_id", "delegation_token", "user"}
	operations    = []string{
		"all", "read", "write", "create", "delete", "alter", "describe", "cluster_action", "describe_configs",
		"alter_configs", "idempotent_write", "create_tokens", "describe_tokens", "two_phase_commit",
	}
)

type aclResource struct {
	session.Configured
}

// NewResource makes `millrace_acl`.
func NewResource() resource.Resource { return &aclResource{} }

var (
	_ resource.ResourceWithConfigure   = &aclResource{}
	_ resource.ResourceWithImportState = &aclResource{}
)

type model struct {
	ID           types.String `tfsdk:"id"`
	ClusterID    types.String `tfsdk:"cluster_id"`
	Principal    types.String `tfsdk:"principal"`
	ResourceType types.String `tfsdk:"resource_type"`
	ResourceName types.String `tfsdk:"resource_name"`
	PatternType  types.String `tfsdk:"pattern_type"`
	Operation    types.String `tfsdk:"operation"`
	Permission   types.String `tfsdk:"permission"`
	Host         types.String `tfsdk:"host"`
}

// parts make the id, in this order.
func (m *model) parts() []*types.String {
	return []*types.String{&m.ClusterID, &m.Principal, &m.ResourceType, &m.ResourceName, &m.PatternType, &m.Operation, &m.Permission, &m.Host}
}

func (m *model) name() string {
	var parts []string
	for _, part := range m.parts() {
		parts = append(parts, part.ValueString())
	}
	return strings.Join(parts, separator)
}

func (r *aclResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_acl"
}

func (r *aclResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.Take(req.ProviderData, &resp.Diagnostics)
}

func (r *aclResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replaced := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	text := func(description string, checks ...validator.String) schema.StringAttribute {
		return schema.StringAttribute{Required: true, PlanModifiers: replaced, MarkdownDescription: description, Validators: checks}
	}
	usually := func(value, description string, checks ...validator.String) schema.StringAttribute {
		return schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(value),
			PlanModifiers: replaced, MarkdownDescription: description, Validators: checks,
		}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "An ACL of a cluster: allows or denies one operation on the resources that a name or prefix stands for. " +
			"An ACL has no identity beside its fields: changing one replaces it, and two resources with the same fields are the same ACL.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "All fields, separated by `|`, as `terraform import` takes them.",
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"cluster_id":    text("The cluster (`clu_…`)."),
			"principal":     text("Whom it is about: `User:alice`, or `User:*` for every user.", stringvalidator.LengthBetween(3, 261)),
			"resource_type": text("`"+strings.Join(resourceTypes, "`, `")+"`.", stringvalidator.OneOf(resourceTypes...)),
			"resource_name": text("A name, a prefix, or `*` for every name; `kafka-cluster` for the cluster.", stringvalidator.LengthBetween(1, 1024)),
			"pattern_type":  usually("literal", "`literal` or `prefixed`; `literal` by default.", stringvalidator.OneOf("literal", "prefixed")),
			"operation":     text("`"+strings.Join(operations, "`, `")+"`.", stringvalidator.OneOf(operations...)),
			"permission":    usually("allow", "`allow` or `deny`; `allow` by default. `deny` wins.", stringvalidator.OneOf("allow", "deny")),
			"host":          usually("*", "Address of the client; `*`, every address, by default.", stringvalidator.LengthBetween(1, 64)),
		},
	}
}

func (r *aclResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var planned model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	clusterID := planned.ClusterID.ValueString()
	pattern := api.AclCreateRequestPatternType(planned.PatternType.ValueString())
	permission := api.AclCreateRequestPermission(planned.Permission.ValueString())
	body := api.AclCreateJSONRequestBody{
		Principal:    planned.Principal.ValueString(),
		ResourceType: api.AclCreateRequestResourceType(planned.ResourceType.ValueString()),
		ResourceName: planned.ResourceName.ValueString(),
		PatternType:  &pattern,
		Operation:    api.AclCreateRequestOperation(planned.Operation.ValueString()),
		Permission:   &permission,
		Host:         planned.Host.ValueStringPointer(),
	}
	_, err := cluster.Write(ctx, r.Session.Client, clusterID, func(ctx context.Context) (*api.Acl, error) {
		ctx, _, cancel := api.Accepting(ctx)
		defer cancel()
		return api.Read[api.Acl](r.Session.AclCreate(ctx, clusterID, nil, body))
	})
	if err != nil {
		session.Report(&resp.Diagnostics, "Creating ACL "+planned.name(), err)
		return
	}
	planned.ID = types.StringValue(planned.name())
	resp.Diagnostics.Append(resp.State.Set(context.WithoutCancel(ctx), &planned)...)
}

func (r *aclResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var known model
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	resourceType := api.AclListParamsResourceType(known.ResourceType.ValueString())
	pattern := api.AclListParamsPatternType(known.PatternType.ValueString())
	operation := api.AclListParamsOperation(known.Operation.ValueString())
	permission := api.AclListParamsPermission(known.Permission.ValueString())
	page, err := api.Read[api.AclPage](r.Session.AclList(ctx, known.ClusterID.ValueString(), &api.AclListParams{
		Principal: known.Principal.ValueStringPointer(), ResourceType: &resourceType, ResourceName: known.ResourceName.ValueStringPointer(),
		PatternType: &pattern, Operation: &operation, Permission: &permission, Host: known.Host.ValueStringPointer(),
	}))
	switch {
	case api.IsNotFound(err) || (err == nil && len(page.Items) == 0):
		resp.State.RemoveResource(ctx)
	case api.HasCode(err, "cluster_not_ready"):
		// A paused cluster has no broker to ask; its ACLs are kept.
		resp.Diagnostics.AddWarning("The ACL was not refreshed",
			fmt.Sprintf("ACL %s is shown as it was last seen: %s", known.ID.ValueString(), err))
	case err != nil:
		session.Report(&resp.Diagnostics, "Reading ACL "+known.ID.ValueString(), err)
	}
}

// Update never changes an ACL: every attribute that could change makes another one.
func (r *aclResource) Update(_ context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

func (r *aclResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var known model
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	clusterID := known.ClusterID.ValueString()
	err := cluster.Remove(ctx, r.Session.Client, clusterID, func(ctx context.Context) error {
		return api.Done(r.Session.AclDelete(ctx, clusterID, &api.AclDeleteParams{
			Principal:    known.Principal.ValueString(),
			ResourceType: api.AclDeleteParamsResourceType(known.ResourceType.ValueString()),
			ResourceName: known.ResourceName.ValueString(),
			PatternType:  api.AclDeleteParamsPatternType(known.PatternType.ValueString()),
			Operation:    api.AclDeleteParamsOperation(known.Operation.ValueString()),
			Permission:   api.AclDeleteParamsPermission(known.Permission.ValueString()),
			Host:         known.Host.ValueString(),
		}))
	})
	session.Report(&resp.Diagnostics, "Deleting ACL "+known.ID.ValueString(), err)
}

// ImportState takes the id: all fields, separated by `|`.
func (r *aclResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	var found model
	parts := strings.Split(req.ID, separator)
	if len(parts) != len(found.parts()) {
		resp.Diagnostics.AddError("Invalid import id for an ACL",
			fmt.Sprintf("Got %q; expected <cluster id>|<principal>|<resource type>|<resource name>|<pattern type>|<operation>|<permission>|<host>.", req.ID))
		return
	}
	names := []string{"cluster_id", "principal", "resource_type", "resource_name", "pattern_type", "operation", "permission", "host"}
	for at, part := range parts {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(names[at]), part)...)
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), req.ID)...)
}
