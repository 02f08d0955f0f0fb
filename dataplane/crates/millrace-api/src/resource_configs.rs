//! Configurations of groups and of subscriptions to client metrics: checked, stored, and only then used.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use millrace_coordinator::{GroupConfigDefinition, GroupConfigs};
use millrace_meta::{MetaStore, ResourceConfigChange, ResourceConfigRow, StoreFailure};
use millrace_wire::error_code::ErrorCode;
use parking_lot::RwLock;

use crate::{
    client_metrics::{
        ClientMetrics,
        subscription::{self, Subscription},
    },
    code,
    config_changes::{Asked, ListDefault, apply},
    config_resource::{CLIENT_METRICS, GROUP},
    topics::Refused,
};

/// Groups that may have configurations of their own. All of them are in memory and are read at a start.
const GROUPS_MAX: usize = 10_000;

/// Subscriptions to client metrics. Each client is matched with all of them.
const SUBSCRIPTIONS_MAX: usize = 100;

/// Bytes of one resource: its name, and the names and values of its configurations.
const RESOURCE_BYTES_MAX: usize = 16 * 1024;

/// Bytes of all resources together.
const ALL_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What has configurations beside topics and brokers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ResourceKind {
    ClientMetrics,
    Group,
}

impl ResourceKind {
    /// Kafka's number.
    const fn code(self) -> i8 {
        match self {
            Self::ClientMetrics => CLIENT_METRICS,
            Self::Group => GROUP,
        }
    }

    fn coded(code: i8) -> Option<Self> {
        match code {
            CLIENT_METRICS => Some(Self::ClientMetrics),
            GROUP => Some(Self::Group),
            _ => None,
        }
    }
}

/// What is set for one resource, by name.
pub(crate) type Configs = BTreeMap<String, String>;

/// The configurations of all groups and of all subscriptions to client metrics.
#[derive(Debug, Clone, Default)]
pub struct StoredConfigs(BTreeMap<(ResourceKind, String), Configs>);

/// The configurations of groups and of subscriptions to client metrics as they are stored.
///
/// # Errors
/// The store failed, or holds what this program would never write.
pub async fn resource_configs(meta: &dyn MetaStore) -> Result<StoredConfigs, StoreFailure> {
    let mut all = StoredConfigs::default();
    for row in meta.resource_configs().await? {
        let kind = ResourceKind::coded(row.resource_type).ok_or_else(|| {
            let number = row.resource_type;
            StoreFailure::Corrupt(format!("a configuration of resource type {number}"))
        })?;
        let configs = all.0.entry((kind, row.resource_name)).or_default();
        configs.insert(row.name, row.value);
    }
    Ok(all)
}

impl StoredConfigs {
    fn of_kind(&self, kind: ResourceKind) -> impl Iterator<Item = (&str, &Configs)> {
        let first = (kind, String::new());
        let of_kind = self
            .0
            .range(first..)
            .take_while(move |((k, _), _)| *k == kind);
        of_kind.map(|((_, name), configs)| (name.as_str(), configs))
    }
}

/// Carries changes out, and shows what is set. Changes run in
/// [`SecurityChanges`](crate::security_changes::SecurityChanges), one after the other.
#[derive(Debug)]
pub(crate) struct ResourceConfigs {
    meta: Arc<dyn MetaStore>,
    live: RwLock<Arc<StoredConfigs>>,
    groups: GroupConfigs,
    client_metrics: Arc<ClientMetrics>,
}

impl ResourceConfigs {
    pub(crate) fn new(
        meta: Arc<dyn MetaStore>,
        stored: StoredConfigs,
        groups: GroupConfigs,
        client_metrics: Arc<ClientMetrics>,
    ) -> Self {
        let configs = Self {
            meta,
            live: RwLock::default(),
            groups,
            client_metrics,
        };
        configs.publish(stored);
        configs
    }

    /// Replaces all configurations by those that are stored.
    pub(crate) async fn reload(&self) -> Result<(), StoreFailure> {
        self.publish(resource_configs(&*self.meta).await?);
        Ok(())
    }

    /// What is set for a resource.
    pub(crate) fn of(&self, kind: ResourceKind, name: &str) -> Configs {
        let live = self.live.read();
        let configs = live.0.get(&(kind, name.to_owned()));
        configs.cloned().unwrap_or_default()
    }

    /// The resources for which something is set.
    pub(crate) fn names(&self, kind: ResourceKind) -> Vec<String> {
        let live = Arc::clone(&*self.live.read());
        let names = live.of_kind(kind).map(|(name, _)| name.to_owned());
        names.collect()
    }

    fn publish(&self, all: StoredConfigs) {
        self.groups.replace(all.of_kind(ResourceKind::Group));
        self.client_metrics
            .subscribe(all.of_kind(ResourceKind::ClientMetrics));
        *self.live.write() = Arc::new(all);
    }

    /// Makes a resource have what is asked for, or says what would be wrong with that.
    pub(crate) async fn change(
        &self,
        (kind, name): (ResourceKind, String),
        asked: Asked,
        validate_only: bool,
    ) -> Result<(), Refused> {
        let before = self.of(kind, &name);
        let mut touched: BTreeSet<String> = BTreeSet::new();
        let after = match asked {
            Asked::All(all) => {
                touched.extend(before.into_keys());
                touched.extend(known_names(kind).map(str::to_owned));
                touched.extend(all.keys().cloned());
                all
            }
            Asked::Some(operations) => {
                touched.extend(operations.keys().cloned());
                let mut configs = before;
                // What an older broker accepted and is not legal any more goes with the next change.
                configs.retain(|config, value| {
                    let is_legal = self.is_legal(kind, config, value);
                    if !is_legal {
                        touched.insert(config.clone());
                    }
                    is_legal
                });
                for (config, operation) in operations {
                    apply(&mut configs, config, operation, list_default(kind))?;
                }
                configs
            }
        };
        check_text(&name, &after)?;
        self.validate(kind, &after)?;
        self.check_room(kind, &name, &after)?;
        if validate_only || touched.is_empty() {
            return Ok(());
        }
        self.store((kind, name), touched, after).await
    }

    /// Stores even what does not change: a write before may have been carried out and said to have failed, and only
    /// another one undoes it.
    async fn store(
        &self,
        (kind, name): (ResourceKind, String),
        touched: BTreeSet<String>,
        configs: Configs,
    ) -> Result<(), Refused> {
        let change = |config: String| match configs.get(&config) {
            Some(value) => ResourceConfigChange::Put(ResourceConfigRow {
                resource_type: kind.code(),
                resource_name: name.clone(),
                name: config,
                value: value.clone(),
            }),
            None => ResourceConfigChange::Remove {
                resource_type: kind.code(),
                resource_name: name.clone(),
                name: config,
            },
        };
        let changes = touched.into_iter().map(change).collect();
        let stored = self.meta.change_resource_configs(changes).await;
        stored.map_err(|error| {
            tracing::warn!(?kind, resource = name, %error, "configurations could not be stored");
            Refused::from(code::of_storage(&error))
        })?;
        tracing::info!(?kind, resource = name, ?configs, "configured");
        let mut all = StoredConfigs::clone(&self.live.read());
        match configs.is_empty() {
            true => all.0.remove(&(kind, name)),
            false => all.0.insert((kind, name), configs),
        };
        self.publish(all);
        Ok(())
    }

    fn is_legal(&self, kind: ResourceKind, name: &str, value: &str) -> bool {
        match kind {
            ResourceKind::ClientMetrics => subscription::is_legal(name, value),
            ResourceKind::Group => {
                let mut all = GroupConfigDefinition::all().iter();
                let definition = all.find(|definition| definition.name == name);
                definition.is_some_and(|d| d.check(value, self.groups.limits()).is_ok())
            }
        }
    }

    fn validate(&self, kind: ResourceKind, configs: &Configs) -> Result<(), Refused> {
        match kind {
            ResourceKind::ClientMetrics => Subscription::new(configs).map(drop),
            ResourceKind::Group => self
                .groups
                .validate(configs)
                .map_err(|error| Refused::new(ErrorCode::InvalidConfig, error.to_string())),
        }
    }

    /// Checks the bounds; what makes a resource smaller is always allowed.
    fn check_room(&self, kind: ResourceKind, name: &str, after: &Configs) -> Result<(), Refused> {
        let full = |message| Err(Refused::new(ErrorCode::PolicyViolation, message));
        let live = Arc::clone(&*self.live.read());
        let before = live.0.get(&(kind, name.to_owned()));
        let bytes = bytes_of(name, after);
        if after.is_empty() || before.is_some_and(|before| bytes <= bytes_of(name, before)) {
            return Ok(());
        }
        if bytes > RESOURCE_BYTES_MAX {
            return full(format!(
                "The name and the configurations of a resource exceed {RESOURCE_BYTES_MAX} bytes."
            ));
        }
        let (max, things) = match kind {
            ResourceKind::ClientMetrics => (SUBSCRIPTIONS_MAX, "subscriptions to client metrics"),
            ResourceKind::Group => (GROUPS_MAX, "groups with configurations"),
        };
        if before.is_none() && live.of_kind(kind).count() >= max {
            return full(format!("There are already {max} {things}, the maximum."));
        }
        let others = live
            .0
            .iter()
            .filter(|((k, n), _)| (*k, n.as_str()) != (kind, name));
        let others: usize = others
            .map(|((_, name), configs)| bytes_of(name, configs))
            .sum();
        if others + bytes > ALL_BYTES_MAX {
            return full(format!(
                "The configurations of all groups and client metrics would exceed {ALL_BYTES_MAX} bytes."
            ));
        }
        Ok(())
    }
}

/// PostgreSQL stores no NUL; the client would be told to try again.
fn check_text(name: &str, configs: &Configs) -> Result<(), Refused> {
    let mut texts = configs.values().map(String::as_str).chain([name]);
    match !configs.is_empty() && texts.any(|text| text.contains('\0')) {
        true => Err(Refused::new(
            ErrorCode::InvalidRequest,
            "Names and values must not contain the NUL character.",
        )),
        false => Ok(()),
    }
}

fn bytes_of(name: &str, configs: &Configs) -> usize {
    let configs = configs.iter().map(|(name, value)| name.len() + value.len());
    name.len() + configs.sum::<usize>()
}

fn known_names(kind: ResourceKind) -> Box<dyn Iterator<Item = &'static str>> {
    match kind {
        ResourceKind::ClientMetrics => Box::new(subscription::DEFINITIONS.iter().map(|d| d.name)),
        ResourceKind::Group => Box::new(GroupConfigDefinition::all().iter().map(|d| d.name)),
    }
}

/// What a list of this kind of resource has where nobody sets it.
fn list_default(kind: ResourceKind) -> ListDefault {
    match kind {
        ResourceKind::ClientMetrics => subscription::list_default,
        ResourceKind::Group => |_| None,
    }
}
