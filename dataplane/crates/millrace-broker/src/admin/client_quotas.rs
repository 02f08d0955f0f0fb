//! `/v1/client-quotas`: what users and client ids may use (KIP-546).

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::{Request, State},
    http::StatusCode,
};
use millrace_wire::{
    StrBytes,
    messages::{
        AlterClientQuotasRequest, DescribeClientQuotasRequest,
        alter_client_quotas_request::{EntityData, EntryData, OpData},
        describe_client_quotas_response::EntryData as Described,
    },
};
use serde::{Deserialize, Serialize};

use super::{
    AdminState,
    kafka::{Refused, ask, body, check},
};

/// One part of whom a quota is for.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    /// `user`, `client-id` or `ip`.
    #[serde(rename = "type")]
    kind: String,
    /// `null` is the default: all that have no quota of their own.
    name: Option<String>,
}

#[derive(Serialize)]
struct Quota {
    entity: Vec<Part>,
    /// By Kafka's keys, such as `producer_byte_rate`.
    limits: BTreeMap<String, f64>,
}

#[derive(Serialize)]
pub(super) struct Quotas {
    quotas: Vec<Quota>,
}

/// `GET /v1/client-quotas`: every quota.
pub(super) async fn list(State(state): State<AdminState>) -> Result<Json<Quotas>, Refused> {
    let request = DescribeClientQuotasRequest::default();
    let response = ask(&state, &request).await?;
    check(response.error_code, response.error_message.as_ref())?;
    let quotas = response.entries.unwrap_or_default().into_iter().map(quota);
    Ok(Json(Quotas {
        quotas: quotas.collect(),
    }))
}

fn quota(described: Described) -> Quota {
    let part = |part: millrace_wire::messages::describe_client_quotas_response::EntityData| Part {
        kind: part.entity_type.to_string(),
        name: part.entity_name.map(|name| name.to_string()),
    };
    let values = described.values.into_iter();
    Quota {
        entity: described.entity.into_iter().map(part).collect(),
        limits: values
            .map(|value| (value.key.to_string(), value.value))
            .collect(),
    }
}

/// What is to become of one entity's quotas: all of it or nothing. Others stay as they are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    entity: Vec<Part>,
    /// A value, or `null` to remove the quota.
    limits: BTreeMap<String, Option<f64>>,
    /// Checks the change and makes none.
    #[serde(default)]
    validate_only: bool,
}

/// `PATCH /v1/client-quotas`
pub(super) async fn change(
    State(state): State<AdminState>,
    request: Request,
) -> Result<StatusCode, Refused> {
    let change: Change = body(request).await?;
    if change.limits.is_empty() {
        return Err(Refused::invalid("name at least one quota in limits"));
    }
    let text = StrBytes::from_string;
    let part = |part: Part| {
        let entity = EntityData::default().with_entity_type(text(part.kind));
        entity.with_entity_name(part.name.map(text))
    };
    let op = |(key, value): (String, Option<f64>)| {
        let op = OpData::default()
            .with_key(text(key))
            .with_remove(value.is_none());
        op.with_value(value.unwrap_or_default())
    };
    let entry = EntryData::default()
        .with_entity(change.entity.into_iter().map(part).collect())
        .with_ops(change.limits.into_iter().map(op).collect());
    let request = AlterClientQuotasRequest::default()
        .with_validate_only(change.validate_only)
        .with_entries(vec![entry]);
    for entry in ask(&state, &request).await?.entries {
        check(entry.error_code, entry.error_message.as_ref())?;
    }
    Ok(StatusCode::NO_CONTENT)
}
