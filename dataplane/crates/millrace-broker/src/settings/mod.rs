//! The broker's settings while it runs: what is in force, and where each value comes from.
//!
//! | module | what it holds |
//! |---|---|
//! | `dynamic` | the settings that change while the broker runs |
//! | `bounds` | what each may be, and why |
//! | `layers` | the places that set them: at run time for this broker or for all, the file |
//! | `caches` | memory that goes from one cache to the other |
//! | `stored` | what was set at run time, in the metadata store |
//!
//! A change is checked as a whole, stored, and then in force; the next start finds it before the
//! storage opens. Two brokers never write the same record: the data folder has a lock, and whoever
//! has been replaced by a newer start is refused.

mod bounds;
mod caches;
mod dynamic;
mod layers;
mod stored;

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use millrace_api::settings::{
    AlterSettingsError, BrokerSetting, BrokerSettings, SettingLayer, SettingScope, SettingSource,
    SettingsChange,
};
use millrace_blockcache::BlockCache;
use millrace_limiter::Network;
use millrace_meta::{MetaStore, OpenStreamError, StoreFailure};
use millrace_model::{Cause, FailureClass, NodeEpoch, NodeId};
use millrace_stream::StreamStore;
use millrace_tasks::Supervisor;
use millrace_wire::service::BoxFuture;
use parking_lot::RwLock;
use serde::Serialize;

use self::{
    bounds::Limits,
    caches::{CacheBytes, Caches},
    dynamic::{Dynamic, Values},
    layers::{Layers, Set},
};
use crate::{
    config::{self, BrokerConfig, Setting, StorageConfig},
    memory::MemoryBudgets,
};

const SCOPES: [SettingScope; 2] = [SettingScope::Broker, SettingScope::Cluster];

/// The broker's settings, and the only one who changes them.
#[derive(Debug)]
pub(crate) struct LiveSettings {
    node_id: NodeId,
    /// What the file says, or the defaults.
    file: Vec<Setting>,
    limits: Limits,
    layers: RwLock<Layers>,
    /// Where changes are kept, once that is open.
    kept: OnceLock<Kept>,
    /// Whom changes concern, once they are there.
    parts: OnceLock<(Parts, Caches)>,
    /// Held while settings are changed: one change after the other.
    changing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Kept {
    meta: Arc<dyn MetaStore>,
    node_epoch: NodeEpoch,
}

/// Whom changes concern.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) tasks: Supervisor,
    pub(crate) block_cache: BlockCache,
    pub(crate) store: StreamStore,
    pub(crate) network: Network,
}

/// One setting as `/v1/config` shows it. Numbers are texts: not all of them fit a JSON number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ShownSetting {
    /// The property.
    key: &'static str,
    /// What is in force; none where it may hold credentials.
    value: Option<String>,
    /// Where that comes from, by Kafka's name.
    source: &'static str,
    /// Whether nobody set it.
    is_default: bool,
    /// What holds where nobody sets it.
    default: Option<String>,
    /// Whether it can be changed while the broker runs.
    dynamic: bool,
    /// The lowest legal number.
    min: Option<String>,
    /// The highest legal number.
    max: Option<String>,
    /// Why these are the bounds.
    reason: Option<String>,
}

impl LiveSettings {
    /// What the file says.
    pub(crate) fn new(config: &BrokerConfig, memory: &MemoryBudgets) -> Self {
        Self {
            node_id: config.node_id,
            file: config.settings.clone(),
            limits: Limits {
                bound_bytes: memory.bound_bytes,
                beside_caches: memory.beside_caches(),
                message_max_bytes: config.log.message_max_bytes as u64,
            },
            layers: RwLock::new(Layers::new(config)),
            kept: OnceLock::new(),
            parts: OnceLock::new(),
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// Takes over what was set at run time, and keeps further changes there. What is not legal any
    /// more is left out and told in the log: a broker that does not start helps nobody.
    ///
    /// # Errors
    /// The metadata store failed.
    pub(crate) async fn load(
        &self,
        meta: Arc<dyn MetaStore>,
        node_epoch: NodeEpoch,
    ) -> Result<(), StoreFailure> {
        for scope in SCOPES {
            let name = stored::name(scope, self.node_id);
            let Some(bytes) = meta.get_kv(&name).await? else {
                continue;
            };
            match stored::decode(&bytes) {
                Ok((set, unknown)) => {
                    if !unknown.is_empty() {
                        tracing::warn!(?unknown, "settings that were set at run time are unknown");
                    }
                    *self.layers.write().of_mut(scope) = set;
                }
                Err(error) => {
                    tracing::warn!(name, %error, "what was set at run time cannot be read, and has no effect");
                }
            }
        }
        for reason in self.layers.write().drop_illegal(&self.limits) {
            tracing::warn!("what was set at run time has no effect any more: {reason}");
        }
        let _ = self.kept.set(Kept { meta, node_epoch });
        Ok(())
    }

    /// The configuration of the storage with what was set at run time.
    pub(crate) fn lay_over(&self, config: &StorageConfig) -> StorageConfig {
        self.layers.read().values().lay_over(config)
    }

    /// Says whom changes concern from now on.
    pub(crate) fn attach(&self, parts: Parts) {
        let caches = Caches::new(
            parts.block_cache.clone(),
            parts.store.clone(),
            parts.tasks.clone(),
        );
        let _ = self.parts.set((parts, caches));
    }

    /// Every setting, by name.
    pub(crate) fn shown(&self) -> Vec<ShownSetting> {
        let (layers, limits) = (self.layers.read(), self.limits);
        let values = layers.values();
        let shown = |setting: &Setting| match Dynamic::find(setting.key) {
            Some(dynamic) => {
                let bounds = layers.bounds(dynamic, &values, &limits);
                let source = first_source(&layers.shown(dynamic));
                ShownSetting {
                    key: setting.key,
                    value: Some(values.get(dynamic).to_string()),
                    source: source.name(),
                    is_default: source == SettingSource::Default,
                    default: Some(layers.default_of(dynamic).to_string()),
                    dynamic: true,
                    min: Some(bounds.least().to_string()),
                    max: Some(bounds.max.to_string()),
                    reason: Some(bounds.reason()),
                }
            }
            None => ShownSetting {
                key: setting.key,
                value: setting.value.clone(),
                source: source_of(setting).name(),
                is_default: setting.is_default,
                default: setting.default.clone(),
                dynamic: false,
                min: setting.range.map(|(min, _)| min.to_string()),
                max: setting.range.map(|(_, max)| max.to_string()),
                reason: None,
            },
        };
        self.file.iter().map(shown).collect()
    }

    async fn change(
        &self,
        scope: SettingScope,
        change: SettingsChange,
        validate_only: bool,
    ) -> Result<(), AlterSettingsError> {
        let _one_at_a_time = self.changing.lock().await;
        let before = self.layers.read().clone();
        let after = before.changed(scope, &change, |name| self.not_dynamic(name));
        let after = after.map_err(AlterSettingsError::Invalid)?;
        let legal = after.check(&before, &self.limits);
        legal.map_err(AlterSettingsError::Invalid)?;
        self.check_fence().await?;
        if validate_only {
            return Ok(());
        }
        // Stored even where nothing changes: what is stored may be another thing, after a write that
        // was carried out and said to have failed, or where the start had to leave something out.
        self.keep(scope, after.of(scope)).await?;
        let values = after.values();
        *self.layers.write() = after;
        self.apply(&before.values(), &values);
        Ok(())
    }

    /// What is wrong with a name that is no dynamic setting's.
    fn not_dynamic(&self, name: &str) -> String {
        let known: BTreeSet<&str> = self.file.iter().map(|setting| setting.key).collect();
        if known.contains(name) {
            return format!("{name}: it needs a restart: set it in server.properties");
        }
        if let Some(reason) = config::reason(name) {
            return format!("{name}: there is nothing to change: {reason}");
        }
        match config::nearest(name, &known) {
            Some(near) => format!("{name}: there is no such setting; did you mean {near}?"),
            None => {
                let all: Vec<&str> = Dynamic::ALL.iter().map(|setting| setting.name()).collect();
                format!(
                    "{name}: there is no such setting; these can be changed: {}",
                    all.join(", ")
                )
            }
        }
    }

    fn kept(&self) -> Result<&Kept, AlterSettingsError> {
        let starting = || Cause::of(FailureClass::Transient, "the broker is starting");
        let kept = self.kept.get();
        kept.ok_or_else(|| AlterSettingsError::NotStored(starting()))
    }

    async fn check_fence(&self) -> Result<(), AlterSettingsError> {
        let Kept { meta, node_epoch } = self.kept()?;
        // Opening nothing changes nothing, and asks whether this node epoch is still the current one.
        match meta.open_streams(&[], *node_epoch).await {
            Ok(_) => Ok(()),
            Err(OpenStreamError::Fenced(_)) => Err(AlterSettingsError::Fenced),
            Err(error) => Err(AlterSettingsError::NotStored(Cause::new(error))),
        }
    }

    async fn keep(&self, scope: SettingScope, set: &Set) -> Result<(), AlterSettingsError> {
        let name = stored::name(scope, self.node_id);
        let kept = self.kept()?.meta.put_kv(&name, &stored::encode(set)).await;
        kept.map_err(|error| AlterSettingsError::NotStored(Cause::new(error)))
    }

    /// Tells the parts what has changed.
    fn apply(&self, before: &Values, after: &Values) {
        for setting in Dynamic::ALL {
            let (from, to) = (before.get(setting), after.get(setting));
            if from == to {
                continue;
            }
            tracing::info!(setting = setting.name(), from, to, "changed at run time");
            let Some((parts, _)) = self.parts.get() else {
                continue;
            };
            match setting {
                // Together, below: one has what the other gives.
                Dynamic::BlockCache | Dynamic::WalCache => {}
                Dynamic::PrefetchMax => parts.block_cache.set_prefetch_max_bytes(to),
                Dynamic::Ingress => parts.network.set_ingress(after.rate(setting)),
                Dynamic::Egress => parts.network.set_egress(after.rate(setting)),
                Dynamic::UploadThreshold => parts.store.set_upload_threshold_bytes(to),
            }
        }
        if let Some((_, caches)) = self.parts.get() {
            caches.set(CacheBytes {
                block: after.get(Dynamic::BlockCache),
                wal: after.get(Dynamic::WalCache),
            });
        }
    }
}

impl BrokerSettings for LiveSettings {
    fn settings(&self) -> Vec<BrokerSetting> {
        let layers = self.layers.read();
        let shown = |setting: &Setting| {
            let dynamic = Dynamic::find(setting.key);
            let layers = match dynamic {
                Some(dynamic) => layers.shown(dynamic),
                None => static_layers(setting),
            };
            BrokerSetting {
                name: setting.key.to_owned(),
                value: layers.first().and_then(|layer| layer.value.clone()),
                kind: setting.kind,
                is_dynamic: dynamic.is_some(),
                documentation: dynamic.map_or("", Dynamic::documentation).to_owned(),
                layers,
            }
        };
        self.file.iter().map(shown).collect()
    }

    fn alter(
        &self,
        scope: SettingScope,
        change: SettingsChange,
        validate_only: bool,
    ) -> BoxFuture<'_, Result<(), AlterSettingsError>> {
        Box::pin(self.change(scope, change, validate_only))
    }
}

fn source_of(setting: &Setting) -> SettingSource {
    match setting.is_default {
        true => SettingSource::Default,
        false => SettingSource::StaticBroker,
    }
}

fn first_source(layers: &[SettingLayer]) -> SettingSource {
    layers
        .first()
        .map_or(SettingSource::Default, |layer| layer.source)
}

fn static_layers(setting: &Setting) -> Vec<SettingLayer> {
    let layer = |source, value: &Option<String>| SettingLayer {
        source,
        name: setting.key.to_owned(),
        value: value.clone(),
    };
    let mut layers = vec![layer(source_of(setting), &setting.value)];
    if !setting.is_default && setting.default.is_some() {
        layers.push(layer(SettingSource::Default, &setting.default));
    }
    layers
}

#[cfg(test)]
mod tests;
