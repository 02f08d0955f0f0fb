//! `/v1/cluster`: the brokers of the cluster, and what happened to them. Each broker answers for all.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Request, State},
    http::StatusCode,
};
use millrace_cluster::View;
use millrace_meta::{Broker, BrokerState, ClusterError, ClusterEvent, StoreFailure};
use millrace_model::NodeId;
use millrace_wire::error_code::ErrorCode;
use serde::{Deserialize, Serialize};

use super::{
    AdminState,
    kafka::{Refused, body},
};

/// A load that was measured longer ago is not shown.
const LOAD_AGE_MAX: Duration = Duration::from_secs(120);

/// Events that are listed, the newest first.
const EVENTS_MAX: usize = 200;

#[derive(Serialize)]
pub(super) struct ClusterAnswer {
    brokers: Vec<BrokerAnswer>,
    events: Vec<EventAnswer>,
}

#[derive(Serialize)]
struct BrokerAnswer {
    node_id: u32,
    /// Counts the starts of all nodes.
    epoch: u64,
    /// `active`, `draining`, `fenced` or `left`.
    state: &'static str,
    /// Its zone (`broker.rack`).
    rack: Option<String>,
    version: String,
    endpoints: Vec<EndpointAnswer>,
    /// Partitions that it leads.
    leaders: usize,
    /// Those of them that are on their way to another broker.
    moving: usize,
    /// What it has to do for them, bytes per second, of which each request counts as 8 KiB. None where it has not told lately.
    load: Option<u64>,
}

#[derive(Serialize)]
struct EndpointAnswer {
    listener: String,
    host: String,
    port: u16,
}

#[derive(Serialize)]
struct EventAnswer {
    /// Milliseconds since 1970.
    at_ms: i64,
    kind: &'static str,
    node_id: Option<u32>,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Drain {
    node_id: u32,
}

/// `GET /v1/cluster`
pub(super) async fn read(State(state): State<AdminState>) -> Result<Json<ClusterAnswer>, Refused> {
    let view = view(&state)?;
    let events = view.membership.store.events(EVENTS_MAX).await;
    let events = events.map_err(|error| failed(&error))?;
    // Without an answer, loads are left out.
    let loads = view.membership.store.loads(LOAD_AGE_MAX).await;
    let loads = loads.unwrap_or_default();
    let mut led: BTreeMap<NodeId, (usize, usize)> = BTreeMap::new();
    for (_, leader) in view.logs.leaders() {
        if let Some(node) = leader.node {
            let (leaders, moving) = led.entry(node).or_default();
            *leaders += 1;
            *moving += usize::from(leader.moving_to.is_some());
        }
    }
    let brokers = Arc::clone(&view.brokers.borrow());
    let answer = |broker: &Broker| {
        let node = broker.joined.node;
        let load = loads.get(&node).map(|load| load.total);
        let load = load.filter(|_| broker.state == BrokerState::Active);
        broker_answer(broker, led.get(&node).copied().unwrap_or_default(), load)
    };
    Ok(Json(ClusterAnswer {
        brokers: brokers.iter().map(answer).collect(),
        events: events.into_iter().map(event_answer).collect(),
    }))
}

/// `POST /v1/cluster/drain`: a broker gives away what it leads, and is given nothing more until it is restarted. The
/// drain is complete when it leads nothing.
pub(super) async fn drain(
    State(state): State<AdminState>,
    request: Request,
) -> Result<StatusCode, Refused> {
    let view = view(&state)?;
    let Drain { node_id } = body(request).await?;
    let node = NodeId(node_id);
    let brokers = Arc::clone(&view.brokers.borrow());
    let broker = brokers
        .iter()
        .find(|broker| broker.joined.node == node && broker.state == BrokerState::Active);
    let Some(broker) = broker else {
        let message = format!("node {node} is no active broker of this cluster");
        return Err(Refused::invalid(message));
    };
    match view.membership.store.begin_drain(broker.epoch).await {
        Ok(()) => Ok(StatusCode::ACCEPTED),
        Err(ClusterError::Store(error)) => Err(failed(&error)),
        Err(error) => Err(Refused::invalid(error.to_string())),
    }
}

/// As Kafka answers while its controller cannot commit: try again.
fn failed(error: &StoreFailure) -> Refused {
    Refused::Kafka(ErrorCode::NotController, error.to_string())
}

fn view(state: &AdminState) -> Result<View, Refused> {
    let serving = state.broker.serving().ok_or(Refused::Starting)?;
    let alone =
        "this broker is the only one of its cluster; metadata.database.url makes it one of several";
    let view = serving.cluster.clone();
    view.ok_or_else(|| Refused::NoRoute(StatusCode::NOT_FOUND, alone.to_owned()))
}

fn broker_answer(
    broker: &Broker,
    (leaders, moving): (usize, usize),
    load: Option<u64>,
) -> BrokerAnswer {
    let joined = &broker.joined;
    let endpoints = joined.endpoints.iter().map(|endpoint| EndpointAnswer {
        listener: endpoint.listener.clone(),
        host: endpoint.host.clone(),
        port: endpoint.port,
    });
    BrokerAnswer {
        node_id: joined.node.get(),
        epoch: broker.epoch.get(),
        state: match broker.state {
            BrokerState::Active if broker.is_draining => "draining",
            BrokerState::Active => "active",
            BrokerState::Fenced { .. } => "fenced",
            BrokerState::Left => "left",
        },
        rack: joined.rack.clone(),
        version: joined.version.clone(),
        endpoints: endpoints.collect(),
        leaders,
        moving,
        load,
    }
}

fn event_answer(event: ClusterEvent) -> EventAnswer {
    EventAnswer {
        at_ms: event.at_ms,
        kind: event.kind.name(),
        node_id: event.node.map(NodeId::get),
        text: event.text,
    }
}
