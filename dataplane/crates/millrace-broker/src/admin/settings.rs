//! `/v1/config`: the broker's settings, and changes of those that change while it runs.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::{Request, State},
    http::StatusCode,
};
use millrace_wire::{
    StrBytes,
    messages::{
        IncrementalAlterConfigsRequest,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
    },
};
use serde::{Deserialize, Serialize};

use super::{
    AdminState,
    kafka::{Refused, ask, body, check},
};
use crate::settings::ShownSetting;

/// Kafka's numbers: the resource, and what becomes of a setting.
const BROKER: i8 = 4;
const SET: i8 = 0;
const DELETE: i8 = 1;

#[derive(Serialize)]
pub(super) struct Config {
    settings: Vec<ShownSetting>,
}

/// `GET /v1/config`
pub(super) async fn read(State(state): State<AdminState>) -> Json<Config> {
    Json(Config {
        settings: state.broker.settings(),
    })
}

/// What is to become of this broker's settings: all of it or nothing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    /// Values by name, as the properties file has them.
    #[serde(default)]
    set: BTreeMap<String, String>,
    /// Names that are to have what holds without a value set at run time.
    #[serde(default)]
    unset: Vec<String>,
    /// Checks the change and makes none.
    #[serde(default)]
    validate_only: bool,
}

/// `PATCH /v1/config`: as IncrementalAlterConfigs for this broker (KIP-339).
pub(super) async fn change(
    State(state): State<AdminState>,
    request: Request,
) -> Result<StatusCode, Refused> {
    let change: Change = body(request).await?;
    let text = StrBytes::from_string;
    let set = change.set.into_iter().map(|(name, value)| {
        let config = AlterableConfig::default().with_name(text(name));
        config
            .with_config_operation(SET)
            .with_value(Some(text(value)))
    });
    let unset = change.unset.into_iter().map(|name| {
        let config = AlterableConfig::default().with_name(text(name));
        config.with_config_operation(DELETE).with_value(None)
    });
    let configs: Vec<_> = set.chain(unset).collect();
    if configs.is_empty() {
        return Err(Refused::invalid(
            "name at least one setting in set or unset",
        ));
    }
    let broker = AlterConfigsResource::default()
        .with_resource_type(BROKER)
        .with_resource_name(text(state.broker.node_id().to_string()))
        .with_configs(configs);
    let request = IncrementalAlterConfigsRequest::default()
        .with_validate_only(change.validate_only)
        .with_resources(vec![broker]);
    for changed in ask(&state, &request).await?.responses {
        check(changed.error_code, changed.error_message.as_ref())?;
    }
    Ok(StatusCode::NO_CONTENT)
}
