// Package cluster holds the resource and the data sources of Kafka clusters.
//
// Creating, changing and deleting are operations of the API that go on by themselves: this package
// starts them and waits. Whoever interrupts Terraform (Ctrl-C) loses nothing: what was accepted stands in
// the state, and the next apply waits for the same operation again. A provider that is killed can tell
// Terraform nothing; the next creation then meets the name, and says how the cluster is taken over.
package cluster

import (
	"context"
	"maps"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/session"
)

const (
	labelsMax  = 32
	brokersMax = 9
	// retainDaysMax is the API's: beyond it a deletion would be refused.
	retainDaysMax = 90
)

var namePattern = regexp.MustCompile(`^[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$`)

type clusterResource struct {
	session.Configured
}

// NewResource makes `millrace_cluster`.
func NewResource() resource.Resource { return &clusterResource{} }

var (
	_ resource.ResourceWithConfigure   = &clusterResource{}
	_ resource.ResourceWithImportState = &clusterResource{}
	_ resource.ResourceWithModifyPlan  = &clusterResource{}
)

func (r *clusterResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_cluster"
}

func (r *clusterResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.Take(req.ProviderData, &resp.Diagnostics)
}

func (r *clusterResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := arguments(ctx)
	maps.Copy(attributes, awsArguments())
	maps.Copy(attributes, facts())
	resp.Schema = schema.Schema{
		MarkdownDescription: "A Kafka cluster. An interrupted or failed apply keeps it in the state; the next apply continues in place.",
		Attributes:          attributes,
	}
}

// arguments are the attributes that a configuration sets.
func arguments(ctx context.Context) map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"environment_id": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "The environment (`env_…`); the organization's first by default. Changing it replaces the cluster.",
			PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplace()},
		},
		"name": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "Unique within the environment. It can be changed.",
			Validators: []validator.String{
				stringvalidator.RegexMatches(namePattern, "lower-case letters, digits and inner hyphens, beginning with a letter, at most 63"),
			},
		},
		"region": schema.StringAttribute{
			Optional: true, Computed: true,
			Default:             stringdefault.StaticString("local"),
			MarkdownDescription: "Where the brokers run: `local` (the machine of the control plane, the default) or an AWS region such as `us-east-1`; see the data source `millrace_regions`. Changing it replaces the cluster.",
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
		},
		"size": schema.StringAttribute{
			Optional: true, Computed: true,
			Default:             stringdefault.StaticString("dev"),
			MarkdownDescription: "CPU, memory and network of each broker; `dev` by default. See the data source `millrace_sizes`.",
		},
		"brokers": brokersSchema(),
		"labels": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Custom labels; on AWS they are tags on every resource of the cluster.",
			Validators: []validator.Map{
				mapvalidator.SizeAtMost(labelsMax),
				mapvalidator.ValueStringsAre(stringvalidator.LengthAtMost(255)),
			},
		},
		"deletion_protection": schema.BoolAttribute{
			Optional: true, Computed: true,
			Default:             booldefault.StaticBool(true),
			MarkdownDescription: "Blocks deletion; `true` by default. A plan that would delete or replace a protected cluster fails, and the console and API reject the deletion too.",
		},
		"plaintext_listener": schema.BoolAttribute{
			Optional: true, Computed: true,
			// No default: it would undo what was set in the console. A state older than the attribute has null,
			// which must not be planned as the value.
			PlanModifiers:       []planmodifier.Bool{boolplanmodifier.UseNonNullStateForUnknown()},
			MarkdownDescription: "Whether clients may connect without TLS. Without this attribute a new cluster allows it, and an existing one keeps its setting. It can be `false` in the region `local` only. A change restarts the broker.",
		},
		"paused": schema.BoolAttribute{
			Optional: true, Computed: true,
			Default:             booldefault.StaticBool(false),
			MarkdownDescription: "Whether the brokers are stopped and their data is kept; `false` by default. After a change back to `false` all acknowledged records are served again.",
		},
		"retain_days": schema.Int64Attribute{
			Optional:            true,
			Validators:          []validator.Int64{int64validator.Between(0, retainDaysMax)},
			MarkdownDescription: "Days to keep the data after a deletion, in which the cluster can be restored; `0` deletes it immediately, the maximum is 90. The default is 7. An environment can be deleted only after the data of its clusters is purged: use `0` for clusters that are destroyed together with their environment.",
		},
		"on_create_failure": schema.StringAttribute{
			Optional: true, Computed: true,
			Default:             stringdefault.StaticString(retryOnFailure),
			Validators:          []validator.String{stringvalidator.OneOf(retryOnFailure, taintOnFailure)},
			MarkdownDescription: "`retry` (the default) keeps a cluster whose creation failed, with a warning and `state = \"FAILED\"`: the next apply retries in place. With `taint` the apply fails, and the next one replaces the cluster.",
		},
		"timeouts": timeouts.Attributes(ctx, timeouts.Opts{Create: true, Update: true, Delete: true}),
	}
}

func brokersSchema() schema.Attribute {
	return schema.Int64Attribute{
		Optional: true, Computed: true,
		MarkdownDescription: "Number of brokers; `1` by default, 9 at most. Several brokers take over from each other. More are started, fewer are stopped after their partitions have moved, both in place; a change from or to `1` replaces the cluster, because one broker keeps the metadata in a file of its own. On AWS, several are spread over at least two zones and share a database of RDS.",
		Validators:          []validator.Int64{int64validator.Between(1, brokersMax)},
		PlanModifiers: []planmodifier.Int64{
			int64planmodifier.UseStateForUnknown(),
			int64planmodifier.RequiresReplaceIf(func(_ context.Context, req planmodifier.Int64Request, resp *int64planmodifier.RequiresReplaceIfFuncResponse) {
				resp.RequiresReplace = changesStorage(req.StateValue, req.PlanValue)
			}, aloneOrNot, aloneOrNot),
		},
	}
}

// facts are the attributes that only the API knows.
func facts() map[string]schema.Attribute {
	stays := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	return map[string]schema.Attribute{
		"id": schema.StringAttribute{
			Computed: true, PlanModifiers: stays,
			MarkdownDescription: "The cluster's id (`clu_…`).",
		},
		"created_at": schema.StringAttribute{
			Computed: true, PlanModifiers: stays,
			MarkdownDescription: "When it was created: RFC 3339, UTC.",
		},
		"state": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "`PROVISIONING`, `RUNNING`, `DEGRADED` (a broker does not serve), `UPDATING`, `PAUSED`, `FAILED`, `DELETING` or `PENDING_PURGE`.",
		},
		"last_operation_id": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "The current operation on the cluster, or the last one (`op_…`).",
		},
		"etag": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "Changes with each change of the cluster.",
		},
		"drift": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "Result of the last drift check of the cluster's cloud resources. Undo or accept drift in the console or API; see the data source `millrace_cluster`.",
		},
		"estimated_monthly_cost_usd": schema.Float64Attribute{
			Computed:            true,
			MarkdownDescription: "Estimated US dollars per month, from list prices and assumed usage. `0` in the region `local`.",
		},
		"endpoints": schema.ListNestedAttribute{
			Computed:            true,
			MarkdownDescription: "Where Kafka clients connect.",
			PlanModifiers:       []planmodifier.List{listplanmodifier.UseStateForUnknown()},
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"name":              schema.StringAttribute{Computed: true, MarkdownDescription: "Name of the listener."},
				"protocol":          schema.StringAttribute{Computed: true, MarkdownDescription: "Value for a client's `security.protocol`: `PLAINTEXT`, or `SASL_SSL` with the certificate of the data source `millrace_ca_certificate`."},
				"bootstrap_servers": schema.StringAttribute{Computed: true, MarkdownDescription: "Value for a client's `bootstrap.servers`."},
			}},
		},
	}
}
