// Package quota holds the resource of client quotas of a cluster.
package quota

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/float64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/resourcevalidator"
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
	separator     = "|"
	rateMax       = 1e12
	percentageMax = 100_000
)

type quotaResource struct {
	session.Configured
}

// NewResource makes `millrace_quota`.
func NewResource() resource.Resource { return &quotaResource{} }

var (
	_ resource.ResourceWithConfigure        = &quotaResource{}
	_ resource.ResourceWithImportState      = &quotaResource{}
	_ resource.ResourceWithConfigValidators = &quotaResource{}
)

type model struct {
	ID                     types.String  `tfsdk:"id"`
	ClusterID              types.String  `tfsdk:"cluster_id"`
	User                   types.String  `tfsdk:"user"`
	ClientID               types.String  `tfsdk:"client_id"`
	ProducerByteRate       types.Int64   `tfsdk:"producer_byte_rate"`
	ConsumerByteRate       types.Int64   `tfsdk:"consumer_byte_rate"`
	RequestPercentage      types.Float64 `tfsdk:"request_percentage"`
	ControllerMutationRate types.Float64 `tfsdk:"controller_mutation_rate"`
}

func (m *model) name() string {
	return strings.Join([]string{m.ClusterID.ValueString(), m.User.ValueString(), m.ClientID.ValueString()}, separator)
}

// patch has every limit: one that the configuration leaves out is removed.
func (m *model) patch() api.Patch {
	patch := api.Patch{
		"producer_byte_rate":       m.ProducerByteRate.ValueInt64Pointer(),
		"consumer_byte_rate":       m.ConsumerByteRate.ValueInt64Pointer(),
		"request_percentage":       m.RequestPercentage.ValueFloat64Pointer(),
		"controller_mutation_rate": m.ControllerMutationRate.ValueFloat64Pointer(),
	}
	if !m.User.IsNull() {
		patch["user"] = m.User.ValueString()
	}
	if !m.ClientID.IsNull() {
		patch["client_id"] = m.ClientID.ValueString()
	}
	return patch
}

func (m *model) take(quota *api.ClientQuota) {
	m.ID = types.StringValue(m.name())
	m.ProducerByteRate = whole(quota.ProducerByteRate)
	m.ConsumerByteRate = whole(quota.ConsumerByteRate)
	m.RequestPercentage = types.Float64PointerValue(quota.RequestPercentage)
	m.ControllerMutationRate = types.Float64PointerValue(quota.ControllerMutationRate)
}

func whole(rate *int) types.Int64 {
	if rate == nil {
		return types.Int64Null()
	}
	return types.Int64Value(int64(*rate))
}

func (r *quotaResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_quota"
}

func (r *quotaResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.Take(req.ProviderData, &resp.Diagnostics)
}

func (r *quotaResource) ConfigValidators(context.Context) []resource.ConfigValidator {
	root := path.MatchRoot
	return []resource.ConfigValidator{
		resourcevalidator.AtLeastOneOf(root("user"), root("client_id")),
		resourcevalidator.AtLeastOneOf(root("producer_byte_rate"), root("consumer_byte_rate"), root("request_percentage"), root("controller_mutation_rate")),
	}
}

func (r *quotaResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replaced := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	entity := func(description string, lengthMax int) schema.StringAttribute {
		return schema.StringAttribute{
			Optional: true, PlanModifiers: replaced, MarkdownDescription: description,
			Validators: []validator.String{stringvalidator.LengthBetween(1, lengthMax)},
		}
	}
	limit := func(description string, most float64) schema.Float64Attribute {
		return schema.Float64Attribute{
			Optional: true, MarkdownDescription: description,
			Validators: []validator.Float64{float64validator.Between(1e-9, most)},
		}
	}
	bytes := func(description string) schema.Int64Attribute {
		return schema.Int64Attribute{
			Optional: true, MarkdownDescription: description,
			Validators: []validator.Int64{int64validator.Between(1, rateMax)},
		}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A quota of a user, a client ID, or both. Clients over it are slowed down. Of several that fit a client, the most specific one counts. " +
			"A quota that exists already is set to these limits.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "`<cluster id>|<user>|<client id>`, as `terraform import` takes it; a part may be empty.",
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"cluster_id":               schema.StringAttribute{Required: true, PlanModifiers: replaced, MarkdownDescription: "The cluster (`clu_…`)."},
			"user":                     entity("The user; `<default>` is every user without a quota of its own.", 256),
			"client_id":                entity("The client ID; `<default>` is every client ID without a quota of its own.", 255),
			"producer_byte_rate":       bytes("Bytes per second that clients write."),
			"consumer_byte_rate":       bytes("Bytes per second that clients read."),
			"request_percentage":       limit("Percent of one processor's time.", percentageMax),
			"controller_mutation_rate": limit("Partitions per second that clients create or delete.", rateMax),
		},
	}
}

func (r *quotaResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var planned model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := r.set(ctx, &planned); err != nil {
		session.Report(&resp.Diagnostics, "Setting quota "+planned.name(), err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(context.WithoutCancel(ctx), &planned)...)
}

func (r *quotaResource) set(ctx context.Context, planned *model) error {
	clusterID := planned.ClusterID.ValueString()
	quota, err := cluster.Write(ctx, r.Session.Client, clusterID, func(ctx context.Context) (*api.ClientQuota, error) {
		ctx, _, cancel := api.Accepting(ctx)
		defer cancel()
		return api.Read[api.ClientQuota](r.Session.QuotaSetWithBody(ctx, clusterID, nil, "application/json", planned.patch().Reader()))
	})
	if err == nil {
		planned.take(quota)
	}
	return err
}

func (r *quotaResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var known model
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	quota, err := r.find(ctx, known)
	switch {
	case api.IsNotFound(err) || (err == nil && quota == nil):
		resp.State.RemoveResource(ctx)
	case api.HasCode(err, "cluster_not_ready"):
		// A paused cluster has no broker to ask; its quotas are kept.
		resp.Diagnostics.AddWarning("The quota was not refreshed",
			fmt.Sprintf("Quota %s is shown as it was last seen: %s", known.ID.ValueString(), err))
	case err != nil:
		session.Report(&resp.Diagnostics, "Reading quota "+known.ID.ValueString(), err)
	default:
		known.take(quota)
		resp.Diagnostics.Append(resp.State.Set(ctx, &known)...)
	}
}

func (r *quotaResource) find(ctx context.Context, known model) (*api.ClientQuota, error) {
	quotas, err := api.All(func(size int, token *string) ([]api.ClientQuota, *string, error) {
		page, err := api.Read[api.ClientQuotaPage](r.Session.QuotaList(ctx, known.ClusterID.ValueString(), &api.QuotaListParams{PageSize: &size, PageToken: token}))
		if err != nil {
			return nil, nil, err
		}
		return page.Items, page.NextPageToken, nil
	})
	for _, quota := range quotas {
		if known.User.Equal(types.StringPointerValue(quota.User)) && known.ClientID.Equal(types.StringPointerValue(quota.ClientId)) {
			return &quota, err
		}
	}
	return nil, err
}

func (r *quotaResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var planned model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := r.set(ctx, &planned); err != nil {
		session.Report(&resp.Diagnostics, "Setting quota "+planned.name(), err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &planned)...)
}

func (r *quotaResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var known model
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	clusterID := known.ClusterID.ValueString()
	err := cluster.Remove(ctx, r.Session.Client, clusterID, func(ctx context.Context) error {
		params := &api.QuotaDeleteParams{User: known.User.ValueStringPointer(), ClientId: known.ClientID.ValueStringPointer()}
		return api.Done(r.Session.QuotaDelete(ctx, clusterID, params))
	})
	session.Report(&resp.Diagnostics, "Deleting quota "+known.ID.ValueString(), err)
}

// ImportState takes `<cluster id>|<user>|<client id>`; a part that is empty is absent.
func (r *quotaResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	parts := strings.Split(req.ID, separator)
	if len(parts) != 3 {
		resp.Diagnostics.AddError("Invalid import id for a quota",
			fmt.Sprintf("Got %q; expected <cluster id>|<user>|<client id>, where user or client id may be empty.", req.ID))
		return
	}
	for at, name := range []string{"cluster_id", "user", "client_id"} {
		if parts[at] != "" {
			resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(name), parts[at])...)
		}
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), req.ID)...)
}
