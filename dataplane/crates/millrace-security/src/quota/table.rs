//! The quotas that are set, and which of them holds for a client.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::RwLock;

use super::{
    entity::{Name, QuotaEntity, QuotaKind},
    filter::QuotaFilter,
};

/// Entities with quotas: more than the users and applications of a large cluster, at about a kilobyte
/// each at most.
pub const QUOTA_ENTITIES_MAX: usize = 10_000;

/// There are as many entities as there may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the cluster has quotas of {QUOTA_ENTITIES_MAX} entities, and cannot have more; remove some, or set a default"
)]
pub struct TooManyEntities;

/// What holds for a client.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// How much, in the unit of its kind.
    pub value: f64,
    /// Who shares it.
    pub meter: MeterKey,
}

/// Clients that share one limit: those of a user, those with a client id, or those of a user with a
/// client id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MeterKey {
    /// The user, if the limit is of users.
    pub user: Option<Box<str>>,
    /// The client id, if the limit is of client ids.
    pub client_id: Option<Box<str>>,
}

/// All quotas.
#[derive(Debug, Clone, Default)]
pub struct QuotaTable {
    entities: BTreeMap<QuotaEntity, BTreeMap<QuotaKind, f64>>,
    limits: [Limits; QuotaKind::ALL.len()],
}

/// The limits of one kind, in the order in which they are looked up.
#[derive(Debug, Clone, Default)]
struct Limits {
    users: HashMap<Box<str>, UserLimits>,
    default_user: UserLimits,
    /// Those of client ids alone.
    no_user: UserLimits,
    ips: HashMap<Box<str>, f64>,
    default_ip: Option<f64>,
}

/// The limits of a user.
#[derive(Debug, Clone, Default)]
struct UserLimits {
    clients: HashMap<Box<str>, f64>,
    default_client: Option<f64>,
    /// All of the user's clients together.
    whole: Option<f64>,
}

/// The quotas that hold now. Where no quota of a kind is set, that costs one atomic load.
#[derive(Debug, Default)]
pub struct LiveQuotas {
    table: RwLock<Arc<QuotaTable>>,
    limited: [AtomicBool; QuotaKind::ALL.len()],
}

impl LiveQuotas {
    /// Starts with these.
    #[must_use]
    pub fn new(table: QuotaTable) -> Self {
        let live = Self::default();
        live.set(table);
        live
    }

    /// Lets others hold from now on.
    pub fn set(&self, table: QuotaTable) {
        let mut held = self.table.write();
        for (kind, limited) in QuotaKind::ALL.into_iter().zip(&self.limited) {
            limited.store(!table.is_unlimited(kind), Ordering::Release);
        }
        *held = Arc::new(table);
    }

    /// All of them.
    #[must_use]
    pub fn table(&self) -> Arc<QuotaTable> {
        Arc::clone(&self.table.read())
    }

    /// Whether anybody has a quota of this kind.
    #[must_use]
    pub fn is_limited(&self, kind: QuotaKind) -> bool {
        let limited = self.limited.get(kind as usize);
        limited.is_some_and(|limited| limited.load(Ordering::Acquire))
    }
}

impl QuotaTable {
    /// The quotas as they were stored.
    #[must_use]
    pub fn new(stored: impl IntoIterator<Item = (QuotaEntity, QuotaKind, f64)>) -> Self {
        let mut table = Self::default();
        let set = |(entity, kind, value)| (entity, kind, Some(value));
        table.apply(stored.into_iter().map(set));
        table
    }

    /// Sets quotas, and removes those without a value.
    pub fn apply(
        &mut self,
        changes: impl IntoIterator<Item = (QuotaEntity, QuotaKind, Option<f64>)>,
    ) {
        for (entity, kind, value) in changes {
            match value {
                Some(value) => {
                    self.entities.entry(entity).or_default().insert(kind, value);
                }
                None => {
                    if let Some(quotas) = self.entities.get_mut(&entity) {
                        quotas.remove(&kind);
                        if quotas.is_empty() {
                            self.entities.remove(&entity);
                        }
                    }
                }
            }
        }
        self.index();
    }

    fn index(&mut self) {
        self.limits = Default::default();
        for (entity, quotas) in &self.entities {
            for (kind, value) in quotas {
                if let Some(limits) = self.limits.get_mut(*kind as usize) {
                    limits.set(entity, *value);
                }
            }
        }
    }

    /// Whether an entity has any quota.
    #[must_use]
    pub fn contains(&self, entity: &QuotaEntity) -> bool {
        self.entities.contains_key(entity)
    }

    /// Whether so many entities more may have quotas.
    ///
    /// # Errors
    /// They may not.
    pub fn has_room(&self, added: usize) -> Result<(), TooManyEntities> {
        match self.entities.len() + added <= QUOTA_ENTITIES_MAX {
            true => Ok(()),
            false => Err(TooManyEntities),
        }
    }

    /// The quota of an entity itself.
    #[must_use]
    pub fn get(&self, entity: &QuotaEntity, kind: QuotaKind) -> Option<f64> {
        self.entities.get(entity)?.get(&kind).copied()
    }

    /// The entities that a filter asks for, with their quotas.
    pub fn find<'a>(
        &'a self,
        filter: &'a QuotaFilter,
    ) -> impl Iterator<Item = (&'a QuotaEntity, &'a BTreeMap<QuotaKind, f64>)> {
        self.entities
            .iter()
            .filter(|(entity, _)| filter.matches(entity))
    }

    /// Whether nobody has a quota of this kind.
    #[must_use]
    pub fn is_unlimited(&self, kind: QuotaKind) -> bool {
        let limits = self.limits.get(kind as usize);
        limits.is_none_or(Limits::is_empty)
    }

    /// What holds for a client: the most specific of its quotas, by Kafka's precedence. That of
    /// a user (by name, then the default) precedes that of client ids alone, and within each the client id's
    /// precedes the default client's and the user's own.
    #[must_use]
    pub fn limit(&self, kind: QuotaKind, user: &str, client_id: &str) -> Option<Limit> {
        let limits = self.limits.get(kind as usize)?;
        let of = |user: Option<&str>, client_id: Option<&str>, value| Limit {
            value,
            meter: MeterKey {
                user: user.map(Into::into),
                client_id: client_id.map(Into::into),
            },
        };
        let named = limits.users.get(user);
        for of_user in named.into_iter().chain([&limits.default_user]) {
            if let Some(value) = of_user.client(client_id) {
                return Some(of(Some(user), Some(client_id), value));
            }
            if let Some(value) = of_user.whole {
                return Some(of(Some(user), None, value));
            }
        }
        let value = limits.no_user.client(client_id)?;
        Some(of(None, Some(client_id), value))
    }

    /// What holds for those who are measured together.
    #[must_use]
    pub fn limit_of(&self, kind: QuotaKind, meter: &MeterKey) -> Option<f64> {
        let limits = self.limits.get(kind as usize)?;
        match (&meter.user, &meter.client_id) {
            (None, None) => None,
            (None, Some(client_id)) => limits.no_user.client(client_id),
            (Some(user), None) => {
                let whole = limits.users.get(user).and_then(|of_user| of_user.whole);
                whole.or(limits.default_user.whole)
            }
            (Some(user), Some(client_id)) => {
                let limit = self.limit(kind, user, client_id)?;
                (limit.meter == *meter).then_some(limit.value)
            }
        }
    }

    /// What holds for an address, in canonical form.
    #[must_use]
    pub fn ip_limit(&self, kind: QuotaKind, ip: &str) -> Option<f64> {
        let limits = self.limits.get(kind as usize)?;
        limits.ips.get(ip).copied().or(limits.default_ip)
    }
}

impl Limits {
    fn set(&mut self, entity: &QuotaEntity, value: f64) {
        match entity {
            QuotaEntity::User(user) => self.user(user).whole = Some(value),
            QuotaEntity::UserAndClient(user, client) => self.user(user).set_client(client, value),
            QuotaEntity::Client(client) => self.no_user.set_client(client, value),
            QuotaEntity::Ip(Name::Default) => self.default_ip = Some(value),
            QuotaEntity::Ip(Name::Is(ip)) => {
                self.ips.insert(ip.clone(), value);
            }
        }
    }

    fn user(&mut self, user: &Name) -> &mut UserLimits {
        match user {
            Name::Default => &mut self.default_user,
            Name::Is(name) => self.users.entry(name.clone()).or_default(),
        }
    }

    fn is_empty(&self) -> bool {
        let no_ips = self.ips.is_empty() && self.default_ip.is_none();
        no_ips && self.users.is_empty() && self.default_user.is_empty() && self.no_user.is_empty()
    }
}

impl UserLimits {
    fn set_client(&mut self, client: &Name, value: f64) {
        match client {
            Name::Default => self.default_client = Some(value),
            Name::Is(name) => {
                self.clients.insert(name.clone(), value);
            }
        }
    }

    fn client(&self, client_id: &str) -> Option<f64> {
        self.clients.get(client_id).copied().or(self.default_client)
    }

    fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.default_client.is_none() && self.whole.is_none()
    }
}
