package cluster

import (
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

// What becomes of a cluster whose creation fails.
const (
	// retryOnFailure keeps it: the next apply continues where the operation stopped.
	retryOnFailure = "retry"
	// taintOnFailure makes Terraform replace it.
	taintOnFailure = "taint"
)

// Phases as the API names them.
const (
	phaseRunning      = "RUNNING"
	phaseDegraded     = "DEGRADED"
	phasePaused       = "PAUSED"
	phaseFailed       = "FAILED"
	phaseProvisioning = "PROVISIONING"
	phaseUpdating     = "UPDATING"
	phaseDeleting     = "DELETING"
	phasePendingPurge = "PENDING_PURGE"
)

// model is the cluster in configuration, plan and state.
type model struct {
	ID                 types.String   `tfsdk:"id"`
	EnvironmentID      types.String   `tfsdk:"environment_id"`
	Name               types.String   `tfsdk:"name"`
	Region             types.String   `tfsdk:"region"`
	Size               types.String   `tfsdk:"size"`
	Brokers            types.Int64    `tfsdk:"brokers"`
	Zones              types.Int64    `tfsdk:"zones"`
	Wal                types.Object   `tfsdk:"wal"`
	Network            types.Object   `tfsdk:"network"`
	Storage            types.Object   `tfsdk:"storage"`
	Labels             types.Map      `tfsdk:"labels"`
	DeletionProtection types.Bool     `tfsdk:"deletion_protection"`
	PlaintextListener  types.Bool     `tfsdk:"plaintext_listener"`
	Paused             types.Bool     `tfsdk:"paused"`
	RetainDays         types.Int64    `tfsdk:"retain_days"`
	OnCreateFailure    types.String   `tfsdk:"on_create_failure"`
	Timeouts           timeouts.Value `tfsdk:"timeouts"`

	State           types.String `tfsdk:"state"`
	Endpoints       types.List   `tfsdk:"endpoints"`
	LastOperationID types.String `tfsdk:"last_operation_id"`
	CreatedAt       types.String `tfsdk:"created_at"`
	Etag            types.String `tfsdk:"etag"`
	Drift           types.String `tfsdk:"drift"`

	EstimatedMonthlyCostUSD types.Float64 `tfsdk:"estimated_monthly_cost_usd"`
}

var endpointType = map[string]attr.Type{
	"name":              types.StringType,
	"protocol":          types.StringType,
	"bootstrap_servers": types.StringType,
}

// take copies what the API says; what Terraform alone knows (timeouts, retain_days) stays.
func (m *model) take(cluster *api.Cluster) {
	m.ID = types.StringValue(cluster.Metadata.Id)
	m.EnvironmentID = types.StringValue(cluster.Spec.EnvironmentId)
	m.Name = types.StringValue(cluster.Spec.Name)
	m.Region = types.StringValue(string(cluster.Spec.Region))
	m.Size = types.StringValue(string(cluster.Spec.Size))
	m.Labels = labelsOf(cluster.Metadata.Labels, m.Labels)
	m.takeAws(cluster.Spec)
	m.DeletionProtection = types.BoolValue(cluster.Spec.DeletionProtection)
	m.PlaintextListener = types.BoolValue(cluster.Spec.PlaintextListener)
	m.Paused = types.BoolValue(cluster.Spec.Paused)
	if !isSet(m.OnCreateFailure) {
		m.OnCreateFailure = types.StringValue(retryOnFailure)
	}
	m.State = types.StringValue(string(cluster.Status.Phase))
	m.Endpoints = endpointsOf(cluster)
	m.LastOperationID = types.StringPointerValue(cluster.Status.OperationId)
	m.CreatedAt = types.StringValue(cluster.Metadata.CreatedAt.UTC().Format("2006-01-02T15:04:05.000Z"))
	m.Etag = types.StringValue(cluster.Metadata.Etag)
	m.Drift = types.StringValue(string(cluster.Status.Drift))
	m.EstimatedMonthlyCostUSD = types.Float64Value(float64(cluster.Status.EstimatedMonthlyCostUsd))
}

// labelsOf keeps null where nothing was written and nothing is there.
func labelsOf(labels map[string]string, known types.Map) types.Map {
	if len(labels) == 0 && !isSet(known) {
		return types.MapNull(types.StringType)
	}
	values := make(map[string]attr.Value, len(labels))
	for name, value := range labels {
		values[name] = types.StringValue(value)
	}
	return types.MapValueMust(types.StringType, values)
}

func endpointsOf(cluster *api.Cluster) types.List {
	values := make([]attr.Value, 0, len(cluster.Status.Endpoints))
	for _, endpoint := range cluster.Status.Endpoints {
		values = append(values, types.ObjectValueMust(endpointType, map[string]attr.Value{
			"name":              types.StringValue(endpoint.Name),
			"protocol":          types.StringValue(string(endpoint.Protocol)),
			"bootstrap_servers": types.StringValue(endpoint.BootstrapServers),
		}))
	}
	return types.ListValueMust(types.ObjectType{AttrTypes: endpointType}, values)
}

func textsOf(values types.Map) map[string]string {
	texts := map[string]string{}
	for name, value := range values.Elements() {
		if text, ok := value.(types.String); ok {
			texts[name] = text.ValueString()
		}
	}
	return texts
}

// isSettled tells whether the cluster is as the configuration asks for, and no apply must continue it.
func (m *model) isSettled() bool {
	switch m.State.ValueString() {
	case phaseFailed, phaseProvisioning, phaseDeleting:
		return false
	}
	return true
}

// keepFacts fills in what is not known after an apply that could not ask any more.
func (m *model) keepFacts(before model) {
	m.State, m.Etag = before.State, before.Etag
	m.Endpoints, m.LastOperationID = before.Endpoints, before.LastOperationID
	m.Drift, m.EstimatedMonthlyCostUSD = before.Drift, before.EstimatedMonthlyCostUSD
}
