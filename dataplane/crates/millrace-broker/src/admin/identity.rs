//! Which broker answers. Addresses, gateways and port forwards may lead to another one than the caller meant, so
//! every answer names its broker, and a caller may name the one that it wants.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::AdminState;

/// Names the cluster of a broker.
pub(crate) const CLUSTER: HeaderName = HeaderName::from_static("millrace-cluster");
/// Names the broker in its cluster: `node.id`.
pub(crate) const BROKER: HeaderName = HeaderName::from_static("millrace-broker");

/// Lets a request pass that names this broker or none, and names this broker in the answer.
pub(super) async fn check(
    State(state): State<AdminState>,
    request: Request,
    next: Next,
) -> Response {
    let cluster = state.broker.cluster_id();
    let cluster = cluster.and_then(|cluster| HeaderValue::from_str(cluster).ok());
    let broker = HeaderValue::from(state.broker.node_id().get());
    let own = [(CLUSTER, cluster), (BROKER, Some(broker))];
    let is_meant = own
        .iter()
        .all(|(name, value)| is_named(request.headers(), name, value.as_ref()));
    let mut response = match is_meant {
        true => next.run(request).await,
        false => misdirected(),
    };
    for (name, value) in own {
        value.map(|value| response.headers_mut().insert(name, value));
    }
    response
}

/// Whether a request names no broker by this header, or this one.
fn is_named(headers: &HeaderMap, name: &HeaderName, own: Option<&HeaderValue>) -> bool {
    let mut named = headers.get_all(name).iter();
    named.all(|value| Some(value) == own)
}

fn misdirected() -> Response {
    let text = "this is another broker than Millrace-Cluster and Millrace-Broker of the request name; compare them with \
                those of this answer, and with the address\n";
    (StatusCode::MISDIRECTED_REQUEST, text).into_response()
}
