//! `/v1/client-metrics`: what clients have pushed of their metrics to this broker (KIP-714).

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use millrace_api::{
    ClientMetric, ClientMetricValue, ClientMetricsFilter, MeasuredClient, MeasuredClients,
};
use millrace_time::rfc3339;
use serde::{Deserialize, Serialize};

use super::{AdminState, kafka::Refused};

/// Clients of one answer.
const CLIENTS_MAX: usize = 1_000;

/// Clients of one answer where no limit is given.
const CLIENTS_DEFAULT: usize = 100;

/// Which clients and metrics.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    client_id: Option<String>,
    client_instance_id: Option<String>,
    /// What the names of metrics begin with.
    metric: Option<String>,
    limit: Option<usize>,
}

#[derive(Serialize)]
struct ClientMetricsAnswer {
    /// By client id.
    clients: Vec<ClientAnswer>,
    /// How many clients there are that the filters let through.
    total: usize,
    /// Clients or values were left out: ask with a filter.
    truncated: bool,
}

#[derive(Serialize)]
struct ClientAnswer {
    client_id: String,
    client_instance_id: String,
    software_name: Option<String>,
    software_version: Option<String>,
    address: String,
    interval_ms: u64,
    /// When it pushed last.
    pushed_at: String,
    /// It has said that it stops.
    terminating: bool,
    metrics: Vec<MetricAnswer>,
}

#[derive(Serialize)]
struct MetricAnswer {
    name: String,
    labels: BTreeMap<String, String>,
    /// `gauge`, `sum` or `histogram`.
    kind: &'static str,
    /// The value; of a histogram, the sum of its values. `null` where the client does not tell it or it is not a number.
    value: Option<f64>,
    /// Of a histogram: how many values it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

/// `GET /v1/client-metrics`
pub(super) async fn list(
    State(state): State<AdminState>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, Refused> {
    let query = query?.0;
    let limit = query.limit.unwrap_or(CLIENTS_DEFAULT);
    if limit == 0 || limit > CLIENTS_MAX {
        let message = format!("limit is a number from 1 to {CLIENTS_MAX}");
        return Err(Refused::invalid(message));
    }
    let api = state.broker.api().ok_or(Refused::Starting)?;
    let found = api.client_metrics(&ClientMetricsFilter {
        client_id: query.client_id,
        client_instance_id: query.client_instance_id,
        metric: query.metric,
        limit,
    });
    Ok(Json(ClientMetricsAnswer::new(found)).into_response())
}

impl ClientMetricsAnswer {
    fn new(found: MeasuredClients) -> Self {
        Self {
            clients: found.clients.into_iter().map(ClientAnswer::new).collect(),
            total: found.total,
            truncated: found.is_truncated,
        }
    }
}

impl ClientAnswer {
    fn new(client: MeasuredClient) -> Self {
        Self {
            client_id: client.client_id,
            client_instance_id: client.client_instance_id,
            software_name: client.software_name,
            software_version: client.software_version,
            address: client.address,
            interval_ms: client.interval_ms,
            pushed_at: rfc3339::format(client.pushed_ms),
            terminating: client.is_terminating,
            metrics: client.metrics.into_iter().map(MetricAnswer::new).collect(),
        }
    }
}

impl MetricAnswer {
    fn new(metric: ClientMetric) -> Self {
        let (kind, value, count) = match metric.value {
            ClientMetricValue::Gauge(value) => ("gauge", Some(value), None),
            ClientMetricValue::Sum(value) => ("sum", Some(value), None),
            ClientMetricValue::Histogram { count, sum } => ("histogram", sum, Some(count)),
        };
        Self {
            name: metric.name,
            labels: metric.labels.into_iter().collect(),
            kind,
            // JSON has no infinity.
            value: value.filter(|value| value.is_finite()),
            count,
        }
    }
}
