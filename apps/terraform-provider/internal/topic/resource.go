// Package topic holds the resource and the data sources of topics. They reach the broker through the
// API with the provider's own key: no Kafka secret is ever part of a topic.
package topic

import (
	"context"
	"fmt"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/millrace/terraform-provider-millrace/internal/session"
)

const (
	nameMax       = 249
	partitionsMax = 10_000
	configsMax    = 50
)

// namePattern is Kafka's; names that begin with two underscores are the broker's own.
var namePattern = regexp.MustCompile(`^(?:[A-Za-z0-9.-]|_(?:[^_]|$))[A-Za-z0-9._-]*$`)

type topicResource struct {
	session.Configured
}

// NewResource makes `millrace_topic`.
func NewResource() resource.Resource { return &topicResource{} }

var (
	_ resource.ResourceWithConfigure   = &topicResource{}
	_ resource.ResourceWithImportState = &topicResource{}
	_ resource.ResourceWithModifyPlan  = &topicResource{}
)

func (r *topicResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_topic"
}

func (r *topicResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.Take(req.ProviderData, &resp.Diagnostics)
}

func (r *topicResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A topic of a cluster. Deleting it deletes its records.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "`<cluster id>/<name>`, as `terraform import` takes it.",
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"cluster_id": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "The cluster (`clu_…`). Changing it replaces the topic: the old one is deleted with its records.",
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"name": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "The topic's name. Kafka cannot rename topics: changing it replaces the topic, and the old one is deleted with its records.",
				Validators: []validator.String{
					stringvalidator.LengthBetween(1, nameMax),
					stringvalidator.RegexMatches(namePattern, "letters, digits, dot, underscore and hyphen; not beginning with two underscores"),
				},
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"partitions": schema.Int64Attribute{
				Optional: true, Computed: true,
				Default:             int64default.StaticInt64(1),
				MarkdownDescription: "Number of partitions, `1` by default. It can only grow; fewer partitions fail the plan.",
				Validators:          []validator.Int64{int64validator.Between(1, partitionsMax)},
			},
			"configs": schema.MapAttribute{
				Optional:            true,
				ElementType:         configType{},
				MarkdownDescription: "Settings by Kafka's names, for example `retention.ms`; values are strings, so that 64-bit numbers keep their precision. Settings that are not listed have the broker's default, which never shows as a change.",
				Validators: []validator.Map{
					mapvalidator.SizeBetween(1, configsMax),
					mapvalidator.ValueStringsAre(stringvalidator.LengthAtMost(4096)),
				},
			},
			"deletion_protection": schema.BoolAttribute{
				Optional: true, Computed: true,
				Default:             booldefault.StaticBool(false),
				MarkdownDescription: "Whether a plan that deletes or replaces the topic fails; `false` by default. Only Terraform enforces it: the console can still delete the topic.",
			},
			"topic_id": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Kafka's id of the topic; a topic that was deleted and created again has a new one.",
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"replication_factor": schema.Int64Attribute{
				Computed:            true,
				MarkdownDescription: "Replicas as reported by Kafka's protocol; durability comes from the write-ahead log and the bucket.",
				PlanModifiers:       []planmodifier.Int64{int64planmodifier.UseStateForUnknown()},
			},
		},
	}
}

func (r *topicResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.State.Raw.IsNull() {
		return
	}
	var before model
	resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if req.Plan.Raw.IsNull() {
		guardDestroy(before, &resp.Diagnostics)
		return
	}
	var planned model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if isReplacement(before, planned) {
		guardReplacement(before, planned, &resp.Diagnostics)
		return
	}
	guardPartitions(before, planned, &resp.Diagnostics)
}

// isReplacement tells whether Terraform makes another topic, as it also does where a value is not known yet.
func isReplacement(before, planned model) bool {
	return !before.Name.Equal(planned.Name) || !before.ClusterID.Equal(planned.ClusterID)
}

func topicID(clusterID, name string) string { return fmt.Sprintf("%s/%s", clusterID, name) }
