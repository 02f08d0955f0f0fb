//! The broker's settings while it runs: what is in force, and where each value comes from.

use millrace_api::{
    AlterSettingsError, BrokerSetting, BrokerSettings, SettingKind, SettingLayer, SettingScope,
    SettingSource, SettingsChange,
};
use millrace_wire::service::BoxFuture;

use crate::config::Setting;

/// What the broker was told at its start, as clients see it.
#[derive(Debug)]
pub(crate) struct LiveSettings {
    file: Vec<Setting>,
}

impl LiveSettings {
    pub(crate) fn new(file: Vec<Setting>) -> Self {
        Self { file }
    }
}

impl BrokerSettings for LiveSettings {
    fn settings(&self) -> Vec<BrokerSetting> {
        let shown = |setting: &Setting| {
            let source = match setting.is_default {
                true => SettingSource::Default,
                false => SettingSource::StaticBroker,
            };
            let layer = SettingLayer {
                source,
                name: setting.key.to_owned(),
                value: setting.value.clone(),
            };
            BrokerSetting {
                name: setting.key.to_owned(),
                value: setting.value.clone(),
                kind: SettingKind::String,
                is_dynamic: false,
                documentation: String::new(),
                layers: vec![layer],
            }
        };
        self.file.iter().map(shown).collect()
    }

    fn alter(
        &self,
        _scope: SettingScope,
        change: SettingsChange,
        _validate_only: bool,
    ) -> BoxFuture<'_, Result<(), AlterSettingsError>> {
        let first = match change {
            SettingsChange::Some(changes) => changes.into_keys().next(),
            SettingsChange::All(all) => all.into_keys().next(),
        };
        let refused = first.map_or(Ok(()), |name| {
            let text = format!("{name}: it needs a restart; set it in server.properties");
            Err(AlterSettingsError::Invalid(text))
        });
        Box::pin(async { refused })
    }
}
