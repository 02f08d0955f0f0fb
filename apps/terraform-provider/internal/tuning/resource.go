// Package tuning holds the resource of a cluster's tuning, which changes brokers while they run.
package tuning

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/session"
)

type tuningResource struct {
	session.Configured
}

// NewResource makes `millrace_cluster_tuning`.
func NewResource() resource.Resource { return &tuningResource{} }

var (
	_ resource.ResourceWithConfigure   = &tuningResource{}
	_ resource.ResourceWithImportState = &tuningResource{}
)

type model struct {
	ClusterID                     types.String `tfsdk:"cluster_id"`
	WalCacheBytes                 types.Int64  `tfsdk:"wal_cache_bytes"`
	BlockCacheBytes               types.Int64  `tfsdk:"block_cache_bytes"`
	UploadThresholdBytes          types.Int64  `tfsdk:"upload_threshold_bytes"`
	PrefetchMaxBytes              types.Int64  `tfsdk:"prefetch_max_bytes"`
	IngressBaselineBytesPerSecond types.Int64  `tfsdk:"ingress_baseline_bytes_per_second"`
	EgressBaselineBytesPerSecond  types.Int64  `tfsdk:"egress_baseline_bytes_per_second"`
	Applied                       types.Bool   `tfsdk:"applied"`
}

// take copies what somebody asked for, here or at the broker; the size's own values are null.
func (m *model) take(tuning *api.Tuning) {
	m.ClusterID = types.StringValue(tuning.ClusterId)
	m.WalCacheBytes = overrideOf(tuning.WalCacheBytes)
	m.BlockCacheBytes = overrideOf(tuning.BlockCacheBytes)
	m.UploadThresholdBytes = overrideOf(tuning.UploadThresholdBytes)
	m.PrefetchMaxBytes = overrideOf(tuning.PrefetchMaxBytes)
	m.IngressBaselineBytesPerSecond = overrideOf(tuning.IngressBaselineBytesPerSecond)
	m.EgressBaselineBytesPerSecond = overrideOf(tuning.EgressBaselineBytesPerSecond)
	m.Applied = types.BoolValue(tuning.Applied)
}

func overrideOf(setting api.TuningSetting) types.Int64 {
	if setting.Source == api.TuningSettingSourceDefault {
		return types.Int64Null()
	}
	return types.Int64Value(int64(setting.Value))
}

// patch names every knob: one that the configuration leaves out has the size's value again.
func (m *model) patch() api.Patch {
	return api.Patch{
		"wal_cache_bytes":                   m.WalCacheBytes.ValueInt64Pointer(),
		"block_cache_bytes":                 m.BlockCacheBytes.ValueInt64Pointer(),
		"upload_threshold_bytes":            m.UploadThresholdBytes.ValueInt64Pointer(),
		"prefetch_max_bytes":                m.PrefetchMaxBytes.ValueInt64Pointer(),
		"ingress_baseline_bytes_per_second": m.IngressBaselineBytesPerSecond.ValueInt64Pointer(),
		"egress_baseline_bytes_per_second":  m.EgressBaselineBytesPerSecond.ValueInt64Pointer(),
	}
}

func (r *tuningResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_cluster_tuning"
}

func (r *tuningResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.Take(req.ProviderData, &resp.Diagnostics)
}

func (r *tuningResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	knob := func(description string) schema.Attribute {
		return schema.Int64Attribute{
			Optional:            true,
			MarkdownDescription: description + " By default the size's value; the API explains the bounds if it rejects a value.",
			Validators:          []validator.Int64{int64validator.AtLeast(0)},
		}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Tuning of a cluster's brokers, applied without a restart. One resource holds all of a cluster's tuning: omitted values have the size's default. Destroying it resets everything. The next apply undoes a revert in the console or over the API: to revert for good, change the configuration.",
		Attributes: map[string]schema.Attribute{
			"cluster_id": schema.StringAttribute{
				Required: true, MarkdownDescription: "The cluster (`clu_…`).",
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"wal_cache_bytes":                   knob("Memory for records that are not uploaded yet."),
			"block_cache_bytes":                 knob("Memory for blocks read from the bucket."),
			"upload_threshold_bytes":            knob("Bytes collected before an upload."),
			"prefetch_max_bytes":                knob("Maximum bytes of read-ahead for catch-up reads."),
			"ingress_baseline_bytes_per_second": knob("Bandwidth to the broker; `0` = unlimited."),
			"egress_baseline_bytes_per_second":  knob("Bandwidth from the broker; `0` = unlimited."),
			"applied":                           schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the running broker has applied every value."},
		},
	}
}

func (r *tuningResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	r.apply(ctx, req.Plan, &resp.State, &resp.Diagnostics)
}

func (r *tuningResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	r.apply(ctx, req.Plan, &resp.State, &resp.Diagnostics)
}

func (r *tuningResource) apply(ctx context.Context, plan tfsdk.Plan, state *tfsdk.State, diags *diag.Diagnostics) {
	var planned model
	diags.Append(plan.Get(ctx, &planned)...)
	if diags.HasError() {
		return
	}
	tuning, err := r.change(ctx, planned)
	if err != nil {
		session.Report(diags, "Tuning cluster "+planned.ClusterID.ValueString(), err)
		return
	}
	planned.take(tuning)
	diags.Append(state.Set(ctx, &planned)...)
}

func (r *tuningResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var known model
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	// A cluster that is gone has nothing to set back.
	if _, err := r.change(ctx, model{ClusterID: known.ClusterID}); err != nil && !api.IsNotFound(err) {
		session.Report(&resp.Diagnostics, "Setting back the tuning of cluster "+known.ClusterID.ValueString(), err)
	}
}

func (r *tuningResource) change(ctx context.Context, m model) (*api.Tuning, error) {
	return api.Read[api.Tuning](r.Session.TuningUpdateWithBody(ctx, m.ClusterID.ValueString(), nil, api.MergePatch, m.patch().Reader()))
}

func (r *tuningResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var known model
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	tuning, err := api.Read[api.Tuning](r.Session.TuningGet(ctx, known.ClusterID.ValueString()))
	if api.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		session.Report(&resp.Diagnostics, "Reading the tuning of cluster "+known.ClusterID.ValueString(), err)
		return
	}
	known.take(tuning)
	resp.Diagnostics.Append(resp.State.Set(ctx, &known)...)
}

// ImportState takes the cluster's id.
func (r *tuningResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("cluster_id"), req, resp)
}
