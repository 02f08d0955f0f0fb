//! What people are shown of the metrics that clients push.

use super::{
    instances::{Instance, Instances, id_text},
    otlp::{ClientMetricValue, SeriesName},
};

/// Values in one answer: some megabytes of JSON.
pub const CLIENT_METRICS_SHOWN_MAX: usize = 10_000;

/// Which clients and metrics are shown.
#[derive(Debug, Clone, Default)]
pub struct ClientMetricsFilter {
    /// Only clients with this client id.
    pub client_id: Option<String>,
    /// Only the client with this client instance id.
    pub client_instance_id: Option<String>,
    /// Only metrics whose names begin with this.
    pub metric: Option<String>,
    /// The most clients that are shown.
    pub limit: usize,
}

/// Clients that have pushed metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredClients {
    /// By client id. No more than were asked for, with [`CLIENT_METRICS_SHOWN_MAX`] values together.
    pub clients: Vec<MeasuredClient>,
    /// How many clients match the filter.
    pub total: usize,
    /// Clients or values were left out.
    pub is_truncated: bool,
}

/// A client that has pushed metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredClient {
    /// Its client instance id, as Kafka writes it.
    pub client_instance_id: String,
    /// Its `client.id`.
    pub client_id: String,
    /// The name of its library, if it reports it.
    pub software_name: Option<String>,
    /// The version of its library, if it reports it.
    pub software_version: Option<String>,
    /// Its IP address.
    pub address: String,
    /// How often it is to push, in milliseconds.
    pub interval_ms: u64,
    /// When it pushed last, in milliseconds since 1970.
    pub pushed_ms: i64,
    /// The client announced that this was its last push.
    pub is_terminating: bool,
    /// What it pushed last.
    pub metrics: Vec<ClientMetric>,
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientMetric {
    /// Its name.
    pub name: String,
    /// Its labels, by name.
    pub labels: Vec<(String, String)>,
    /// The value.
    pub value: ClientMetricValue,
}

pub(super) fn shown(instances: &Instances, filter: &ClientMetricsFilter) -> MeasuredClients {
    let wanted = instances.iter().filter_map(|(id, instance)| {
        let pushed_ms = instance.pushed_ms?;
        let client_id = &instance.attributes.client_id;
        let is_asked = |asked: &Option<String>, is: &str| asked.as_ref().is_none_or(|a| a == is);
        let id = id_text(id);
        let is_wanted =
            is_asked(&filter.client_id, client_id) && is_asked(&filter.client_instance_id, &id);
        is_wanted.then_some((client_id, id, pushed_ms, instance))
    });
    let mut wanted: Vec<_> = wanted.collect();
    let total = wanted.len();
    wanted.sort_by(|(a, a_id, ..), (b, b_id, ..)| (a, a_id).cmp(&(b, b_id)));
    let mut is_truncated = total > filter.limit;
    let mut room = CLIENT_METRICS_SHOWN_MAX;
    let clients = wanted.into_iter().take(filter.limit);
    let clients = clients.map(|(_, id, pushed_ms, instance)| {
        let mut client = head(id, pushed_ms, instance);
        let prefix = filter.metric.as_deref().unwrap_or_default();
        let wanted = instance.series.iter();
        let mut wanted = wanted.filter(|(name, _)| name.metric.starts_with(prefix));
        client
            .metrics
            .extend(wanted.by_ref().take(room).map(metric));
        room -= client.metrics.len();
        is_truncated |= wanted.next().is_some();
        client
    });
    let clients = clients.collect();
    MeasuredClients {
        clients,
        total,
        is_truncated,
    }
}

/// The client without its values.
fn head(client_instance_id: String, pushed_ms: i64, instance: &Instance) -> MeasuredClient {
    let attributes = &instance.attributes;
    let interval_ms = instance.assigned.interval.as_millis();
    MeasuredClient {
        client_instance_id,
        client_id: attributes.client_id.clone(),
        software_name: attributes.software_name.clone(),
        software_version: attributes.software_version.clone(),
        address: attributes.address.clone(),
        interval_ms: u64::try_from(interval_ms).unwrap_or(u64::MAX),
        pushed_ms,
        is_terminating: instance.is_terminating,
        metrics: Vec::new(),
    }
}

fn metric((name, value): (&SeriesName, &ClientMetricValue)) -> ClientMetric {
    ClientMetric {
        name: name.metric.clone(),
        labels: name.labels.clone(),
        value: *value,
    }
}
