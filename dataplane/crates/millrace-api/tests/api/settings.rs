//! A keeper of the broker's settings that lives in memory.

use std::collections::BTreeMap;

use millrace_api::settings::{
    AlterSettingsError, BrokerSetting, BrokerSettings, SettingKind, SettingLayer, SettingScope,
    SettingSource, SettingsChange,
};
use millrace_wire::service::BoxFuture;
use parking_lot::Mutex;

/// The one setting that can be changed; its values are whole numbers.
pub(crate) const DYNAMIC: &str = "s3.block.cache.size";

#[derive(Debug, Default)]
pub(crate) struct KeptSettings(Mutex<Dynamic>);

type Dynamic = BTreeMap<(SettingScope, String), String>;

fn layer(source: SettingSource, name: &str, value: Option<&str>) -> SettingLayer {
    SettingLayer {
        source,
        name: name.to_owned(),
        value: value.map(str::to_owned),
    }
}

fn setting(name: &str, layers: Vec<SettingLayer>) -> BrokerSetting {
    BrokerSetting {
        name: name.to_owned(),
        value: layers[0].value.clone(),
        kind: SettingKind::Long,
        is_dynamic: name == DYNAMIC,
        documentation: format!("What {name} does."),
        layers,
    }
}

impl BrokerSettings for KeptSettings {
    fn settings(&self) -> Vec<BrokerSetting> {
        use SettingSource::{Default, DynamicBroker, DynamicDefault, StaticBroker};
        let kept = self.0.lock();
        let mut layers = Vec::new();
        for (scope, source) in [
            (SettingScope::Broker, DynamicBroker),
            (SettingScope::Cluster, DynamicDefault),
        ] {
            if let Some(value) = kept.get(&(scope, DYNAMIC.to_owned())) {
                layers.push(layer(source, DYNAMIC, Some(value)));
            }
        }
        layers.push(layer(Default, DYNAMIC, Some("100")));
        vec![
            setting(
                "num.partitions",
                vec![layer(Default, "num.partitions", Some("1"))],
            ),
            setting(
                "log.retention.ms",
                vec![layer(StaticBroker, "log.retention.ms", Some("1000"))],
            ),
            setting(DYNAMIC, layers),
            setting(
                "s3.data.buckets",
                vec![layer(StaticBroker, "s3.data.buckets", None)],
            ),
        ]
    }

    fn alter(
        &self,
        scope: SettingScope,
        change: SettingsChange,
        validate_only: bool,
    ) -> BoxFuture<'_, Result<(), AlterSettingsError>> {
        let altered = self.check(scope, change).map(|kept| {
            if !validate_only {
                *self.0.lock() = kept;
            }
        });
        Box::pin(async { altered })
    }
}

impl KeptSettings {
    fn check(
        &self,
        scope: SettingScope,
        change: SettingsChange,
    ) -> Result<Dynamic, AlterSettingsError> {
        let mut kept = self.0.lock().clone();
        let changes = match change {
            SettingsChange::Some(changes) => changes,
            SettingsChange::All(all) => {
                kept.retain(|(of, _), _| *of != scope);
                all.into_iter()
                    .map(|(name, value)| (name, Some(value)))
                    .collect()
            }
        };
        for (name, value) in changes {
            let legal = name == DYNAMIC && value.as_ref().is_none_or(|v| v.parse::<u64>().is_ok());
            if !legal {
                return Err(AlterSettingsError::Invalid(format!(
                    "{name}: refused; write another"
                )));
            }
            match value {
                Some(value) => kept.insert((scope, name), value),
                None => kept.remove(&(scope, name)),
            };
        }
        Ok(kept)
    }
}
