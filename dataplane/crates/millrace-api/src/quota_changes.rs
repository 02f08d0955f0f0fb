//! Changes of client quotas (KIP-546): checked, stored, and only then used.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use millrace_meta::{MetaStore, QuotaChange, QuotaEntityRow, QuotaRow, StoreFailure};
use millrace_security::{
    CONTROL_PLANE_USER,
    quota::{
        EntityPart, InvalidQuota, LiveQuotas, Name, QuotaEntity, QuotaKind, QuotaTable,
        TooManyEntities,
    },
};
use millrace_wire::error_code::ErrorCode;

use crate::{code, topics::Refused};

/// An entity as a client names it: types and names, where no name is the default.
pub(crate) type AskedEntity = Vec<(String, Option<String>)>;

/// The changes of one entity that are asked for.
#[derive(Debug)]
pub(crate) struct AskedQuotas {
    pub(crate) entity: AskedEntity,
    /// Keys and values; a quota without a value is to be removed.
    pub(crate) quotas: Vec<(String, Option<f64>)>,
}

/// One change that can be carried out.
type Checked = (QuotaEntity, QuotaKind, Option<f64>);

/// Carries changes out. Changes run in [`SecurityChanges`](crate::security_changes::SecurityChanges), one
/// after the other.
#[derive(Debug)]
pub(crate) struct QuotaChanges {
    meta: Arc<dyn MetaStore>,
    live: Arc<LiveQuotas>,
}

/// The quotas as they are stored.
///
/// # Errors
/// The store failed, or holds what this program would never write.
pub async fn client_quotas(meta: &dyn MetaStore) -> Result<QuotaTable, StoreFailure> {
    let quota = |row: QuotaRow| {
        let QuotaRow { entity, key, value } = row;
        let corrupt = |error: InvalidQuota| StoreFailure::Corrupt(format!("a quota: {error}"));
        let QuotaEntityRow {
            user,
            client_id,
            ip,
        } = &entity;
        let parts = [
            (EntityPart::User, user),
            (EntityPart::ClientId, client_id),
            (EntityPart::Ip, ip),
        ];
        let parts = parts.into_iter().filter_map(|(part, name)| {
            let name = name.as_deref()?;
            Some((part.text(), (!name.is_empty()).then_some(name)))
        });
        let entity = QuotaEntity::from_parts(parts).map_err(corrupt)?;
        let kind = entity.kind(&key).map_err(corrupt)?;
        Ok((entity, kind, value))
    };
    let rows = meta.client_quotas().await?.into_iter().map(quota);
    Ok(QuotaTable::new(
        rows.collect::<Result<Vec<_>, StoreFailure>>()?,
    ))
}

impl QuotaChanges {
    pub(crate) fn new(meta: Arc<dyn MetaStore>, live: Arc<LiveQuotas>) -> Self {
        Self { meta, live }
    }

    /// Replaces all quotas by those that are stored. What clients have used is measured apart, and stays.
    pub(crate) async fn reload(&self) -> Result<(), StoreFailure> {
        self.live.set(client_quotas(&*self.meta).await?);
        Ok(())
    }

    /// The quotas that hold now.
    pub(crate) fn table(&self) -> Arc<QuotaTable> {
        self.live.table()
    }

    /// Carries changes out, each entity's all or none; or only checks them. What became of each entity,
    /// in the order in which they were asked for, each once.
    pub(crate) async fn apply(
        &self,
        asked: Vec<AskedQuotas>,
        validate_only: bool,
    ) -> Vec<(AskedEntity, Result<(), Refused>)> {
        let table = self.live.table();
        let mut results: Vec<(AskedEntity, Result<(), Refused>)> = Vec::new();
        let mut places: BTreeMap<AskedEntity, usize> = BTreeMap::new();
        let (mut changes, mut added): (Vec<Checked>, HashSet<QuotaEntity>) = Default::default();
        for AskedQuotas { entity, quotas } in asked {
            // An entity is a set of parts.
            let mut sorted = entity.clone();
            sorted.sort();
            let next = results.len();
            let place = *places.entry(sorted).or_insert(next);
            if place < next {
                // What was checked before is withdrawn: nobody knows which of the two was meant.
                let message = "Ignoring duplicate entity";
                let refused = Refused::new(ErrorCode::InvalidRequest, message);
                if let Some((_, result)) = results.get_mut(place) {
                    *result = Err(refused);
                }
                if let Ok(entity) = checked_entity(&entity) {
                    changes.retain(|(of, ..)| *of != entity);
                }
                continue;
            }
            let checked = check(&table, &entity, quotas, &mut added);
            results.push((entity, checked.map(|checked| changes.extend(checked))));
        }
        if !validate_only && let Err(refused) = self.store(&table, changes).await {
            for (_, result) in results.iter_mut().filter(|(_, result)| result.is_ok()) {
                *result = Err(refused.clone());
            }
        }
        results
    }

    async fn store(&self, table: &QuotaTable, changes: Vec<Checked>) -> Result<(), Refused> {
        if changes.is_empty() {
            return Ok(());
        }
        let rows = changes.iter().map(row).collect();
        self.meta
            .change_client_quotas(rows)
            .await
            .map_err(|error| {
                tracing::warn!(%error, "client quotas could not be stored");
                Refused::from(code::of_storage(&error))
            })?;
        for (entity, kind, value) in &changes {
            tracing::info!(
                ?entity,
                quota = kind.key(),
                value,
                "a client quota was changed"
            );
        }
        let mut table = table.clone();
        table.apply(changes);
        self.live.set(table);
        Ok(())
    }
}

fn names_control_plane(entity: &QuotaEntity) -> bool {
    let mut parts = entity.parts();
    parts.any(|(part, name)| part == EntityPart::User && name.text() == Some(CONTROL_PLANE_USER))
}

fn checked_entity(entity: &AskedEntity) -> Result<QuotaEntity, InvalidQuota> {
    let parts = entity.iter();
    QuotaEntity::from_parts(parts.map(|(part, name)| (part.as_str(), name.as_deref())))
}

/// The changes of one entity that can be carried out; those that change nothing are left out.
fn check(
    table: &QuotaTable,
    entity: &AskedEntity,
    quotas: Vec<(String, Option<f64>)>,
    added: &mut HashSet<QuotaEntity>,
) -> Result<Vec<Checked>, Refused> {
    let invalid = |error: InvalidQuota| Refused::new(ErrorCode::InvalidRequest, error.to_string());
    let mut keys = HashSet::new();
    if let Some((key, _)) = quotas.iter().find(|(key, _)| !keys.insert(key.clone())) {
        let message = format!("Duplicate quota key {key}");
        return Err(Refused::new(ErrorCode::InvalidRequest, message));
    }
    let entity = checked_entity(entity).map_err(invalid)?;
    let sets = quotas.iter().any(|(_, value)| value.is_some());
    // Older versions may have stored one, which can be removed.
    if sets && names_control_plane(&entity) {
        let message = format!("{CONTROL_PLANE_USER} is the control plane, which has no quotas");
        return Err(Refused::new(ErrorCode::InvalidRequest, message));
    }
    let mut checked = Vec::with_capacity(quotas.len());
    for (key, value) in quotas {
        let kind = match (entity.kind(&key), value) {
            (Ok(kind), _) => kind,
            // What cannot be there need not be removed.
            (Err(_), None) => continue,
            (Err(error), Some(_)) => return Err(invalid(error)),
        };
        if let Some(value) = value {
            kind.check(value).map_err(invalid)?;
        }
        if table.get(&entity, kind) != value {
            checked.push((entity.clone(), kind, value));
        }
    }
    if checked.iter().any(|(.., value)| value.is_some()) && !table.contains(&entity) {
        table
            .has_room(added.len() + 1)
            .map_err(|full: TooManyEntities| {
                Refused::new(ErrorCode::PolicyViolation, full.to_string())
            })?;
        added.insert(entity);
    }
    Ok(checked)
}

fn row((entity, kind, value): &Checked) -> QuotaChange {
    let mut row = QuotaEntityRow {
        user: None,
        client_id: None,
        ip: None,
    };
    for (part, name) in entity.parts() {
        let name = Name::text(name).unwrap_or_default().to_owned();
        match part {
            EntityPart::User => row.user = Some(name),
            EntityPart::ClientId => row.client_id = Some(name),
            EntityPart::Ip => row.ip = Some(name),
        }
    }
    let (entity, key) = (row, kind.key().to_owned());
    match *value {
        Some(value) => QuotaChange::Put(QuotaRow { entity, key, value }),
        None => QuotaChange::Remove { entity, key },
    }
}
