// Package catalog holds the data sources of what can be chosen: regions, sizes, versions.
package catalog

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/session"
)

type regionModel struct {
	ID        types.String   `tfsdk:"id"`
	Title     types.String   `tfsdk:"title"`
	Provider  types.String   `tfsdk:"provider_kind"`
	Available types.Bool     `tfsdk:"available"`
	Zones     []types.String `tfsdk:"zones"`
}

type regionsModel struct {
	Regions []regionModel `tfsdk:"regions"`
}

// NewRegions makes the data source `millrace_regions`.
func NewRegions() datasource.DataSource {
	return &session.DataSource[regionsModel]{
		Name: "regions",
		Fields: schema.Schema{
			MarkdownDescription: "Where clusters can run.",
			Attributes: map[string]schema.Attribute{
				"regions": schema.ListNestedAttribute{
					Computed: true, MarkdownDescription: "The regions.",
					NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
						"id":            schema.StringAttribute{Computed: true, MarkdownDescription: "Value for a cluster's `region`."},
						"title":         schema.StringAttribute{Computed: true, MarkdownDescription: "Display name."},
						"provider_kind": schema.StringAttribute{Computed: true, MarkdownDescription: "`local` or `aws`."},
						"available":     schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether clusters can be created there; otherwise they can only be planned."},
						"zones":         schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "The availability zones in use."},
					}},
				},
			},
		},
		Fetch: func(ctx context.Context, session *session.Session, asked *regionsModel) error {
			list, err := api.Read[api.RegionList](session.RegionList(ctx))
			if err != nil {
				return err
			}
			asked.Regions = []regionModel{}
			for _, region := range list.Items {
				zones := []types.String{}
				for _, zone := range region.Zones {
					zones = append(zones, types.StringValue(zone))
				}
				asked.Regions = append(asked.Regions, regionModel{
					ID: types.StringValue(string(region.Id)), Title: types.StringValue(region.Title),
					Provider: types.StringValue(string(region.Provider)), Available: types.BoolValue(region.Available), Zones: zones,
				})
			}
			return nil
		},
	}
}

var awsType = map[string]attr.Type{
	"instance_type": types.StringType, "vcpus": types.Int64Type, "memory_bytes": types.StringType,
	"network_baseline_bytes_per_second": types.StringType,
	"ebs_baseline_bytes_per_second":     types.StringType, "ebs_baseline_iops": types.Int64Type,
}

type sizeModel struct {
	ID                  types.String  `tfsdk:"id"`
	Title               types.String  `tfsdk:"title"`
	MemoryBytes         types.String  `tfsdk:"memory_bytes"`
	WalCacheBytes       types.String  `tfsdk:"wal_cache_bytes"`
	BlockCacheBytes     types.String  `tfsdk:"block_cache_bytes"`
	EstimatedMonthlyUSD types.Float64 `tfsdk:"estimated_monthly_cost_usd"`
	PricesAsOf          types.String  `tfsdk:"prices_as_of"`
	Aws                 types.Object  `tfsdk:"aws"`
}

type sizesModel struct {
	Region types.String `tfsdk:"region"`
	Sizes  []sizeModel  `tfsdk:"sizes"`
}

// NewSizes makes the data source `millrace_sizes`.
func NewSizes() datasource.DataSource {
	text := func(description string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	return &session.DataSource[sizesModel]{
		Name: "sizes",
		Fields: schema.Schema{
			MarkdownDescription: "Sizes of brokers, and their cost in a region. Bytes are decimal strings.",
			Attributes: map[string]schema.Attribute{
				"region": schema.StringAttribute{Optional: true, MarkdownDescription: "The region of sizes and prices; `local` by default."},
				"sizes": schema.ListNestedAttribute{
					Computed: true, MarkdownDescription: "The sizes, smallest first.",
					NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
						"id":                         text("Value for a cluster's `size`."),
						"title":                      text("Display name."),
						"memory_bytes":               text("Memory of a broker."),
						"wal_cache_bytes":            text("Cache for records that are not uploaded yet."),
						"block_cache_bytes":          text("Cache for blocks read from the bucket."),
						"prices_as_of":               text("Day of the prices."),
						"estimated_monthly_cost_usd": schema.Float64Attribute{Computed: true, MarkdownDescription: "US dollars per month for a cluster of one broker: an estimate."},
						"aws":                        schema.ObjectAttribute{Computed: true, AttributeTypes: awsType, MarkdownDescription: "The EC2 instance; null in the region `local`."},
					}},
				},
			},
		},
		Fetch: fetchSizes,
	}
}

func fetchSizes(ctx context.Context, session *session.Session, asked *sizesModel) error {
	params := &api.SizeListParams{}
	if !asked.Region.IsNull() {
		region := api.SizeListParamsRegion(asked.Region.ValueString())
		params.Region = &region
	}
	list, err := api.Read[api.SizeList](session.SizeList(ctx, params))
	if err != nil {
		return err
	}
	asked.Sizes = []sizeModel{}
	for _, size := range list.Items {
		asked.Sizes = append(asked.Sizes, sizeModel{
			ID: types.StringValue(string(size.Id)), Title: types.StringValue(size.Title),
			MemoryBytes: types.StringValue(size.MemoryBytes), WalCacheBytes: types.StringValue(size.WalCacheBytes),
			BlockCacheBytes:     types.StringValue(size.BlockCacheBytes),
			EstimatedMonthlyUSD: types.Float64Value(size.Cost.Total),
			PricesAsOf:          types.StringValue(size.Cost.AsOf.String()),
			Aws:                 awsOf(size.Aws),
		})
	}
	return nil
}

func awsOf(size *api.AwsSize) types.Object {
	if size == nil {
		return types.ObjectNull(awsType)
	}
	return types.ObjectValueMust(awsType, map[string]attr.Value{
		"instance_type": types.StringValue(size.InstanceType), "vcpus": types.Int64Value(int64(size.Vcpus)),
		"memory_bytes":                      types.StringValue(size.MemoryBytes),
		"network_baseline_bytes_per_second": types.StringValue(size.NetworkBaselineBytesPerSecond),
		"ebs_baseline_bytes_per_second":     types.StringValue(size.EbsBaselineBytesPerSecond),
		"ebs_baseline_iops":                 types.Int64Value(int64(size.EbsBaselineIops)),
	})
}

type versionModel struct {
	ID      types.String `tfsdk:"id"`
	Default types.Bool   `tfsdk:"default"`
}

type versionsModel struct {
	Versions []versionModel `tfsdk:"versions"`
}

// NewVersions makes the data source `millrace_versions`.
func NewVersions() datasource.DataSource {
	return &session.DataSource[versionsModel]{
		Name: "versions",
		Fields: schema.Schema{
			MarkdownDescription: "Versions of the broker.",
			Attributes: map[string]schema.Attribute{
				"versions": schema.ListNestedAttribute{
					Computed: true, MarkdownDescription: "The versions.",
					NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
						"id":      schema.StringAttribute{Computed: true, MarkdownDescription: "The version."},
						"default": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether new clusters use it."},
					}},
				},
			},
		},
		Fetch: func(ctx context.Context, session *session.Session, asked *versionsModel) error {
			list, err := api.Read[api.BrokerVersionList](session.VersionList(ctx))
			if err != nil {
				return err
			}
			asked.Versions = []versionModel{}
			for _, version := range list.Items {
				asked.Versions = append(asked.Versions, versionModel{ID: types.StringValue(version.Id), Default: types.BoolValue(version.Default)})
			}
			return nil
		},
	}
}
