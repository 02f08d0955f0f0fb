package cluster

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/session"
)

// shown is a cluster as data sources show it.
type shown struct {
	ID                      types.String  `tfsdk:"id"`
	EnvironmentID           types.String  `tfsdk:"environment_id"`
	Name                    types.String  `tfsdk:"name"`
	Region                  types.String  `tfsdk:"region"`
	Size                    types.String  `tfsdk:"size"`
	Brokers                 types.Int64   `tfsdk:"brokers"`
	Zones                   types.Int64   `tfsdk:"zones"`
	Wal                     types.Object  `tfsdk:"wal"`
	Network                 types.Object  `tfsdk:"network"`
	Storage                 types.Object  `tfsdk:"storage"`
	Labels                  types.Map     `tfsdk:"labels"`
	DeletionProtection      types.Bool    `tfsdk:"deletion_protection"`
	PlaintextListener       types.Bool    `tfsdk:"plaintext_listener"`
	Paused                  types.Bool    `tfsdk:"paused"`
	State                   types.String  `tfsdk:"state"`
	Endpoints               types.List    `tfsdk:"endpoints"`
	LastOperationID         types.String  `tfsdk:"last_operation_id"`
	CreatedAt               types.String  `tfsdk:"created_at"`
	Drift                   types.String  `tfsdk:"drift"`
	EstimatedMonthlyCostUSD types.Float64 `tfsdk:"estimated_monthly_cost_usd"`
}

func show(cluster *api.Cluster) shown {
	var seen model
	seen.Labels = types.MapValueMust(types.StringType, nil)
	seen.take(cluster)
	return shown{
		ID: seen.ID, EnvironmentID: seen.EnvironmentID, Name: seen.Name, Region: seen.Region, Size: seen.Size,
		Brokers: seen.Brokers, Zones: seen.Zones, Wal: seen.Wal, Network: seen.Network, Storage: seen.Storage,
		Labels: seen.Labels, DeletionProtection: seen.DeletionProtection,
		PlaintextListener: seen.PlaintextListener, Paused: seen.Paused,
		State: seen.State, Endpoints: seen.Endpoints, LastOperationID: seen.LastOperationID,
		CreatedAt: seen.CreatedAt, Drift: seen.Drift, EstimatedMonthlyCostUSD: seen.EstimatedMonthlyCostUSD,
	}
}

func shownFields() map[string]schema.Attribute {
	text := func(description string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	return map[string]schema.Attribute{
		"id":                  text("The cluster's id (`clu_…`)."),
		"environment_id":      text("Its environment."),
		"name":                text("Its name."),
		"region":              text("Where its brokers run."),
		"size":                text("What each broker has."),
		"brokers":             schema.Int64Attribute{Computed: true, MarkdownDescription: "Number of brokers."},
		"zones":               schema.Int64Attribute{Computed: true, MarkdownDescription: "Availability zones."},
		"wal":                 schema.ObjectAttribute{Computed: true, AttributeTypes: walType, MarkdownDescription: "The volume of the write-ahead log; null in the region `local`."},
		"network":             schema.ObjectAttribute{Computed: true, AttributeTypes: networkType, MarkdownDescription: "Its network on AWS; null in the region `local`."},
		"storage":             schema.ObjectAttribute{Computed: true, AttributeTypes: storageType, MarkdownDescription: "Encryption of its data on AWS; null in the region `local`."},
		"labels":              schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Its labels."},
		"deletion_protection": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether deletion is blocked."},
		"plaintext_listener":  schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether clients may connect without TLS."},
		"paused":              schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether its brokers are stopped."},
		"state":               text("Its phase."),
		"last_operation_id":   text("The current operation on it, or the last one."),
		"created_at":          text("When it was created: RFC 3339, UTC."),
		"drift":               text("Result of the last drift check of its cloud resources."),
		"estimated_monthly_cost_usd": schema.Float64Attribute{
			Computed: true, MarkdownDescription: "US dollars per month: an estimate.",
		},
		"endpoints": schema.ListAttribute{
			Computed: true, ElementType: types.ObjectType{AttrTypes: endpointType}, MarkdownDescription: "Where Kafka clients connect.",
		},
	}
}

// NewDataSource makes the data source `millrace_cluster`.
func NewDataSource() datasource.DataSource {
	fields := shownFields()
	for name, description := range map[string]string{
		"id":             "The cluster's id (`clu_…`); this, or `environment_id` and `name`.",
		"environment_id": "The cluster's environment, with `name`.",
		"name":           "The cluster's name, with `environment_id`.",
	} {
		fields[name] = schema.StringAttribute{Optional: true, Computed: true, MarkdownDescription: description}
	}
	return &session.DataSource[shown]{
		Name:   "cluster",
		Fields: schema.Schema{MarkdownDescription: "A cluster, by its id or by its environment and name.", Attributes: fields},
		Fetch: func(ctx context.Context, session *session.Session, asked *shown) error {
			wanted := asked.ID.ValueString()
			if asked.ID.IsNull() {
				if asked.EnvironmentID.IsNull() || asked.Name.IsNull() {
					return errors.New("give id, or environment_id and name")
				}
				wanted = asked.EnvironmentID.ValueString() + "/" + asked.Name.ValueString()
			}
			cluster, err := Find(ctx, session.Client, wanted)
			if err == nil {
				*asked = show(cluster)
			}
			return err
		},
	}
}

type listModel struct {
	EnvironmentID types.String `tfsdk:"environment_id"`
	Clusters      []shown      `tfsdk:"clusters"`
}

// NewListDataSource makes the data source `millrace_clusters`.
func NewListDataSource() datasource.DataSource {
	return &session.DataSource[listModel]{
		Name: "clusters",
		Fields: schema.Schema{
			MarkdownDescription: "The clusters of the organization or of one environment, newest first.",
			Attributes: map[string]schema.Attribute{
				"environment_id": schema.StringAttribute{Optional: true, MarkdownDescription: "Only clusters of this environment."},
				"clusters": schema.ListNestedAttribute{
					Computed: true, MarkdownDescription: "The clusters.",
					NestedObject: schema.NestedAttributeObject{Attributes: shownFields()},
				},
			},
		},
		Fetch: func(ctx context.Context, session *session.Session, asked *listModel) error {
			clusters, err := List(ctx, session.Client, asked.EnvironmentID.ValueStringPointer())
			if err != nil {
				return err
			}
			asked.Clusters = make([]shown, len(clusters))
			for at := range clusters {
				asked.Clusters[at] = show(&clusters[at])
			}
			return nil
		},
	}
}
