package topic

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

// model is the topic in configuration, plan and state.
type model struct {
	ID                 types.String `tfsdk:"id"`
	ClusterID          types.String `tfsdk:"cluster_id"`
	Name               types.String `tfsdk:"name"`
	Partitions         types.Int64  `tfsdk:"partitions"`
	Configs            types.Map    `tfsdk:"configs"`
	DeletionProtection types.Bool   `tfsdk:"deletion_protection"`
	TopicID            types.String `tfsdk:"topic_id"`
	ReplicationFactor  types.Int64  `tfsdk:"replication_factor"`
}

// take copies what the API says. The settings are those that somebody gave the topic: one that was
// added outside of Terraform shows as a change, the broker's defaults never do.
func (m *model) take(topic *api.Topic) {
	m.ID = types.StringValue(topicID(m.ClusterID.ValueString(), topic.Name))
	m.Name = types.StringValue(topic.Name)
	m.Partitions = types.Int64Value(int64(topic.Partitions))
	m.TopicID = types.StringPointerValue(topic.TopicId)
	m.ReplicationFactor = types.Int64Value(int64(topic.ReplicationFactor))
	m.Configs = configsOf(topic.Configs)
	if m.DeletionProtection.IsNull() {
		m.DeletionProtection = types.BoolValue(false)
	}
}

// configsOf are the settings that somebody gave the topic itself.
func configsOf(settings *map[string]api.TopicConfig) types.Map {
	values := map[string]attr.Value{}
	if settings != nil {
		for name, setting := range *settings {
			if setting.Source == api.TopicConfigSourceTopic && setting.Value != nil {
				values[name] = configValue{StringValue: basetypes.NewStringValue(*setting.Value)}
			}
		}
	}
	if len(values) == 0 {
		return types.MapNull(configType{})
	}
	return types.MapValueMust(configType{}, values)
}

// settings of the plan by name.
func settings(configs types.Map) map[string]string {
	given := map[string]string{}
	for name, value := range configs.Elements() {
		if text, ok := value.(configValue); ok {
			given[name] = text.ValueString()
		}
	}
	return given
}
