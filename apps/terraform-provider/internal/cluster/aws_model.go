package cluster

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

// takeAws copies what the API has of AWS; a local cluster has none of it.
func (m *model) takeAws(spec api.ClusterSpec) {
	m.Brokers = types.Int64Value(int64(spec.Brokers))
	m.Zones = types.Int64Value(int64(spec.Zones))
	m.Wal = types.ObjectNull(walType)
	if wal := spec.Wal; wal != nil {
		m.Wal = types.ObjectValueMust(walType, map[string]attr.Value{
			"type":             types.StringValue(string(wal.Type)),
			"size_gib":         types.Int64Value(int64(wal.SizeGib)),
			"iops":             types.Int64Value(int64(wal.Iops)),
			"throughput_mibps": wholeOf(wal.ThroughputMibps),
		})
	}
	m.Network = types.ObjectNull(networkType)
	if network := spec.Network; network != nil {
		m.Network = types.ObjectValueMust(networkType, map[string]attr.Value{
			"vpc_id":             types.StringPointerValue(network.VpcId),
			"subnet_ids":         listOf(network.SubnetIds),
			"cidr":               types.StringValue(network.Cidr),
			"access":             types.StringValue(string(network.Access)),
			"allowed_principals": listOf(network.AllowedPrincipals),
			"allowed_cidrs":      listOf(network.AllowedCidrs),
		})
	}
	m.Storage = types.ObjectNull(storageType)
	if storage := spec.Storage; storage != nil {
		m.Storage = types.ObjectValueMust(storageType, map[string]attr.Value{
			"kms_key_arn": types.StringPointerValue(storage.KmsKeyArn),
		})
	}
}

func wholeOf(number *int) types.Int64 {
	if number == nil {
		return types.Int64Null()
	}
	return types.Int64Value(int64(*number))
}

func listOf(texts []string) types.List {
	values := make([]attr.Value, 0, len(texts))
	for _, text := range texts {
		values = append(values, types.StringValue(text))
	}
	return types.ListValueMust(types.StringType, values)
}

// given is what a nested block says: the attributes that are neither null nor left to the API.
func given(block types.Object) api.Patch {
	said := api.Patch{}
	for name, value := range block.Attributes() {
		if !isSet(value) {
			continue
		}
		switch value := value.(type) {
		case types.String:
			said[name] = value.ValueString()
		case types.Int64:
			said[name] = value.ValueInt64()
		case types.List:
			said[name] = textsIn(value)
		}
	}
	return said
}

// changed is what a nested block says otherwise than before.
func changed(before, planned types.Object) api.Patch {
	said := given(planned)
	was := before.Attributes()
	for name, value := range planned.Attributes() {
		if old, had := was[name]; had && old.Equal(value) {
			delete(said, name)
		}
	}
	return said
}

func textsIn(list types.List) []string {
	texts := make([]string, 0, len(list.Elements()))
	for _, element := range list.Elements() {
		if text, ok := element.(types.String); ok {
			texts = append(texts, text.ValueString())
		}
	}
	return texts
}
