//! Credentials, quotas, access control lists and delegation tokens.

use super::{
    PostgresMeta,
    feed::{Change, commit_change},
};
use crate::{
    AclRow, DelegationTokenChange, DelegationTokenRow, QuotaChange, QuotaEntityRow, QuotaRow,
    ScramChange, ScramRow, StoreFailure, number::from_sql,
};

/// A row of `scram_credentials`.
type Credential = (String, i64, i64, Vec<u8>, Vec<u8>, Vec<u8>);
/// A row of `client_quotas`.
type Quota = (Option<String>, Option<String>, Option<String>, String, f64);
/// A row of `acls`.
type Acl = (i64, String, i64, String, String, i64, i64);
/// A row of `delegation_tokens`.
type Token = (String, String, String, String, i64, i64, i64);

pub(super) async fn scram_credentials(meta: &PostgresMeta) -> Result<Vec<ScramRow>, StoreFailure> {
    let rows: Vec<Credential> = sqlx::query_as(
        "SELECT user_name, mechanism, iterations, salt, stored_key, server_key
         FROM scram_credentials ORDER BY user_name, mechanism",
    )
    .fetch_all(&meta.pool)
    .await?;
    let credential = |(user, mechanism, iterations, salt, stored_key, server_key): Credential| {
        Ok(ScramRow {
            user,
            mechanism: from_sql(mechanism)?,
            iterations: from_sql(iterations)?,
            salt,
            stored_key,
            server_key,
        })
    };
    rows.into_iter().map(credential).collect()
}

pub(super) async fn change_scram_credentials(
    meta: &PostgresMeta,
    changes: &[ScramChange],
) -> Result<(), StoreFailure> {
    let mut tx = meta.begin().await?;
    for change in changes {
        let statement = match change {
            ScramChange::Put(row) => sqlx::query(
                "INSERT INTO scram_credentials
                   (user_name, mechanism, iterations, salt, stored_key, server_key)
                 VALUES ($1, $2, $3, $4, $5, $6)
                 ON CONFLICT (user_name, mechanism) DO UPDATE SET iterations = excluded.iterations,
                   salt = excluded.salt, stored_key = excluded.stored_key,
                   server_key = excluded.server_key",
            )
            .bind(&row.user)
            .bind(i64::from(row.mechanism))
            .bind(i64::from(row.iterations))
            .bind(&row.salt)
            .bind(&row.stored_key)
            .bind(&row.server_key),
            ScramChange::Remove { user, mechanism } => {
                sqlx::query("DELETE FROM scram_credentials WHERE user_name = $1 AND mechanism = $2")
                    .bind(user)
                    .bind(i64::from(*mechanism))
            }
        };
        statement.execute(&mut *tx).await?;
    }
    commit_change(tx, Change::Security).await
}

pub(super) async fn client_quotas(meta: &PostgresMeta) -> Result<Vec<QuotaRow>, StoreFailure> {
    // SQLite's order: entities without a part come first.
    let rows: Vec<Quota> = sqlx::query_as(
        "SELECT user_name, client_id, ip, quota_key, quota_value FROM client_quotas
         ORDER BY user_name NULLS FIRST, client_id NULLS FIRST, ip NULLS FIRST, quota_key",
    )
    .fetch_all(&meta.pool)
    .await?;
    let quota = |(user, client_id, ip, key, value): Quota| QuotaRow {
        entity: QuotaEntityRow {
            user,
            client_id,
            ip,
        },
        key,
        value,
    };
    Ok(rows.into_iter().map(quota).collect())
}

pub(super) async fn change_client_quotas(
    meta: &PostgresMeta,
    changes: &[QuotaChange],
) -> Result<(), StoreFailure> {
    let mut tx = meta.begin().await?;
    for change in changes {
        let statement = match change {
            QuotaChange::Put(QuotaRow { entity, key, value }) => sqlx::query(
                "INSERT INTO client_quotas (user_name, client_id, ip, quota_key, quota_value)
                 VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (user_name, client_id, ip, quota_key)
                 DO UPDATE SET quota_value = excluded.quota_value",
            )
            .bind(&entity.user)
            .bind(&entity.client_id)
            .bind(&entity.ip)
            .bind(key)
            .bind(value),
            QuotaChange::Remove { entity, key } => sqlx::query(
                "DELETE FROM client_quotas
                 WHERE user_name IS NOT DISTINCT FROM $1 AND client_id IS NOT DISTINCT FROM $2
                   AND ip IS NOT DISTINCT FROM $3 AND quota_key = $4",
            )
            .bind(&entity.user)
            .bind(&entity.client_id)
            .bind(&entity.ip)
            .bind(key),
        };
        statement.execute(&mut *tx).await?;
    }
    commit_change(tx, Change::Security).await
}

pub(super) async fn acls(meta: &PostgresMeta) -> Result<Vec<AclRow>, StoreFailure> {
    let rows: Vec<Acl> = sqlx::query_as(
        "SELECT resource_type, resource_name, pattern_type, principal, host, operation, permission
         FROM acls",
    )
    .fetch_all(&meta.pool)
    .await?;
    let rule = |row: Acl| {
        let (resource_type, resource_name, pattern_type, principal, host, operation, permission) =
            row;
        Ok(AclRow {
            resource_type: from_sql(resource_type)?,
            resource_name,
            pattern_type: from_sql(pattern_type)?,
            principal,
            host,
            operation: from_sql(operation)?,
            permission: from_sql(permission)?,
        })
    };
    rows.into_iter().map(rule).collect()
}

pub(super) async fn change_acls(
    meta: &PostgresMeta,
    added: &[AclRow],
    removed: &[AclRow],
) -> Result<(), StoreFailure> {
    const INSERT: &str = "INSERT INTO acls
        (resource_type, resource_name, pattern_type, principal, host, operation, permission)
        VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";
    const DELETE: &str = "DELETE FROM acls
        WHERE resource_type = $1 AND resource_name = $2 AND pattern_type = $3 AND principal = $4
          AND host = $5 AND operation = $6 AND permission = $7";
    let mut tx = meta.begin().await?;
    let added = added.iter().map(|row| (INSERT, row));
    let removed = removed.iter().map(|row| (DELETE, row));
    for (statement, row) in added.chain(removed) {
        sqlx::query(statement)
            .bind(i64::from(row.resource_type))
            .bind(&row.resource_name)
            .bind(i64::from(row.pattern_type))
            .bind(&row.principal)
            .bind(&row.host)
            .bind(i64::from(row.operation))
            .bind(i64::from(row.permission))
            .execute(&mut *tx)
            .await?;
    }
    commit_change(tx, Change::Security).await
}

pub(super) async fn delegation_tokens(
    meta: &PostgresMeta,
) -> Result<Vec<DelegationTokenRow>, StoreFailure> {
    let rows: Vec<Token> = sqlx::query_as(
        "SELECT token_id, owner, requester, renewers, issued_ms, max_ms, expires_ms
         FROM delegation_tokens ORDER BY token_id",
    )
    .fetch_all(&meta.pool)
    .await?;
    let token = |(id, owner, requester, renewers, issued_ms, max_ms, expires_ms): Token| {
        let renewers = serde_json::from_str(&renewers).map_err(|error| {
            StoreFailure::Corrupt(format!("the renewers of a delegation token: {error}"))
        })?;
        Ok(DelegationTokenRow {
            id,
            owner,
            requester,
            renewers,
            issued_ms,
            max_ms,
            expires_ms,
        })
    };
    rows.into_iter().map(token).collect()
}

pub(super) async fn change_delegation_tokens(
    meta: &PostgresMeta,
    changes: &[DelegationTokenChange],
) -> Result<(), StoreFailure> {
    let mut tx = meta.begin().await?;
    for change in changes {
        let statement = match change {
            DelegationTokenChange::Put(row) => {
                let renewers = serde_json::to_string(&row.renewers);
                sqlx::query(
                    "INSERT INTO delegation_tokens
                       (token_id, owner, requester, renewers, issued_ms, max_ms, expires_ms)
                     VALUES ($1, $2, $3, $4, $5, $6, $7)
                     ON CONFLICT (token_id) DO UPDATE SET owner = excluded.owner,
                       requester = excluded.requester, renewers = excluded.renewers,
                       issued_ms = excluded.issued_ms, max_ms = excluded.max_ms,
                       expires_ms = excluded.expires_ms",
                )
                .bind(&row.id)
                .bind(&row.owner)
                .bind(&row.requester)
                .bind(renewers.expect("a list of texts is always JSON"))
                .bind(row.issued_ms)
                .bind(row.max_ms)
                .bind(row.expires_ms)
            }
            DelegationTokenChange::Remove(id) => {
                sqlx::query("DELETE FROM delegation_tokens WHERE token_id = $1").bind(id)
            }
        };
        statement.execute(&mut *tx).await?;
    }
    commit_change(tx, Change::Security).await
}
