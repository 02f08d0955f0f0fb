package topic

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/session"
)

// shown is a topic as data sources show it.
type shown struct {
	Name              types.String `tfsdk:"name"`
	TopicID           types.String `tfsdk:"topic_id"`
	Partitions        types.Int64  `tfsdk:"partitions"`
	ReplicationFactor types.Int64  `tfsdk:"replication_factor"`
	Configs           types.Map    `tfsdk:"configs"`
}

func show(topic *api.Topic) shown {
	values := map[string]attr.Value{}
	for name, value := range configsOf(topic.Configs).Elements() {
		values[name] = value.(configValue).StringValue
	}
	return shown{
		Name:              types.StringValue(topic.Name),
		TopicID:           types.StringPointerValue(topic.TopicId),
		Partitions:        types.Int64Value(int64(topic.Partitions)),
		ReplicationFactor: types.Int64Value(int64(topic.ReplicationFactor)),
		Configs:           types.MapValueMust(types.StringType, values),
	}
}

func shownFields() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"name":               schema.StringAttribute{Computed: true, MarkdownDescription: "The topic's name."},
		"topic_id":           schema.StringAttribute{Computed: true, MarkdownDescription: "Kafka's id of the topic."},
		"partitions":         schema.Int64Attribute{Computed: true, MarkdownDescription: "Number of partitions."},
		"replication_factor": schema.Int64Attribute{Computed: true, MarkdownDescription: "Replicas as reported by Kafka's protocol."},
		"configs":            schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Settings of the topic itself, without defaults."},
	}
}

type oneModel struct {
	ClusterID         types.String `tfsdk:"cluster_id"`
	Name              types.String `tfsdk:"name"`
	TopicID           types.String `tfsdk:"topic_id"`
	Partitions        types.Int64  `tfsdk:"partitions"`
	ReplicationFactor types.Int64  `tfsdk:"replication_factor"`
	Configs           types.Map    `tfsdk:"configs"`
}

// NewDataSource makes the data source `millrace_topic`.
func NewDataSource() datasource.DataSource {
	fields := shownFields()
	fields["cluster_id"] = schema.StringAttribute{Required: true, MarkdownDescription: "The cluster (`clu_…`)."}
	fields["name"] = schema.StringAttribute{Required: true, MarkdownDescription: "The topic's name."}
	return &session.DataSource[oneModel]{
		Name:   "topic",
		Fields: schema.Schema{MarkdownDescription: "A topic of a cluster.", Attributes: fields},
		Fetch: func(ctx context.Context, session *session.Session, asked *oneModel) error {
			topic, err := session.Topics.Get(ctx, asked.ClusterID.ValueString(), asked.Name.ValueString())
			if err != nil {
				return err
			}
			if topic == nil {
				return fmt.Errorf("cluster %s has no topic %s", asked.ClusterID.ValueString(), asked.Name.ValueString())
			}
			seen := show(topic)
			asked.TopicID, asked.Partitions = seen.TopicID, seen.Partitions
			asked.ReplicationFactor, asked.Configs = seen.ReplicationFactor, seen.Configs
			return nil
		},
	}
}

type listModel struct {
	ClusterID types.String `tfsdk:"cluster_id"`
	Topics    []shown      `tfsdk:"topics"`
}

// NewListDataSource makes the data source `millrace_topics`.
func NewListDataSource() datasource.DataSource {
	return &session.DataSource[listModel]{
		Name: "topics",
		Fields: schema.Schema{
			MarkdownDescription: "Every topic of a cluster, by name, without internal topics.",
			Attributes: map[string]schema.Attribute{
				"cluster_id": schema.StringAttribute{Required: true, MarkdownDescription: "The cluster (`clu_…`)."},
				"topics": schema.ListNestedAttribute{
					Computed:            true,
					MarkdownDescription: "The topics.",
					NestedObject:        schema.NestedAttributeObject{Attributes: shownFields()},
				},
			},
		},
		Fetch: func(ctx context.Context, session *session.Session, asked *listModel) error {
			topics, err := session.Topics.All(ctx, asked.ClusterID.ValueString())
			if err != nil {
				return err
			}
			asked.Topics = []shown{}
			for _, name := range slices.Sorted(maps.Keys(topics)) {
				topic := topics[name]
				asked.Topics = append(asked.Topics, show(&topic))
			}
			return nil
		},
	}
}
