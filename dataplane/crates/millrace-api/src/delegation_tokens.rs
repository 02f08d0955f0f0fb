//! Changes of delegation tokens (KIP-48): checked, stored, and only then used.
//!
//! Order of the checks, errors and times are those of Apache Kafka's `DelegationTokenControlManager`. Two bounds are
//! ours: owners are users, and tokens and renewers have a maximum number.

use std::{collections::HashSet, sync::Arc, time::Duration};

use millrace_meta::{DelegationTokenChange, DelegationTokenRow, MetaStore, StoreFailure};
use millrace_security::{
    ANONYMOUS_USER, InvalidPrincipal, Principal,
    delegation::{DelegationToken, DelegationTokens, IssuedToken, RENEWERS_MAX, TokenConfig},
};
use millrace_time::SharedClock;
use millrace_wire::{error_code::ErrorCode, service::Peer};

use crate::code;

/// The only type of principals that sign in.
const USER_TYPE: &str = "User";

/// A principal as requests write it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named<'a> {
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
}

/// What is made of a token once it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenChange {
    /// A new time until it expires; 0 or less asks for the configured one.
    Renew(i64),
    /// The same, as short as the client likes; less than 0 removes the token.
    Expire(i64),
}

/// A change failed: its error, and the token's id where the failure is to be in the audit log. That a token has
/// expired is not: it needs no right to ask again and again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotChanged {
    pub(crate) code: ErrorCode,
    pub(crate) id: Option<String>,
}

impl From<ErrorCode> for NotChanged {
    fn from(code: ErrorCode) -> Self {
        Self { code, id: None }
    }
}

/// Carries changes out. Changes run in [`SecurityChanges`](crate::security_changes::SecurityChanges), one
/// after the other.
#[derive(Debug)]
pub(crate) struct TokenChanges {
    meta: Arc<dyn MetaStore>,
    tokens: Arc<DelegationTokens>,
}

/// The tokens as they are stored.
///
/// # Errors
/// The store failed, or holds what this program would never write.
pub async fn delegation_tokens(
    meta: &dyn MetaStore,
    config: TokenConfig,
    clock: SharedClock,
) -> Result<DelegationTokens, StoreFailure> {
    Ok(DelegationTokens::new(config, clock, stored(meta).await?))
}

async fn stored(meta: &dyn MetaStore) -> Result<Vec<DelegationToken>, StoreFailure> {
    let token = |row: DelegationTokenRow| {
        let principal = |text: &String| text.parse::<Principal>();
        Ok(DelegationToken {
            owner: principal(&row.owner)?,
            requester: principal(&row.requester)?,
            renewers: row
                .renewers
                .iter()
                .map(principal)
                .collect::<Result<_, _>>()?,
            id: row.id,
            issued_ms: row.issued_ms,
            max_ms: row.max_ms,
            expires_ms: row.expires_ms,
        })
    };
    let rows = meta.delegation_tokens().await?.into_iter().map(token);
    let tokens = rows.collect::<Result<Vec<_>, InvalidPrincipal>>();
    tokens.map_err(|error| StoreFailure::Corrupt(format!("a delegation token is invalid: {error}")))
}

/// The client's principal, where it may ask for tokens: it has authenticated, and not by a token itself, so that a
/// token cannot be used to get another one that lasts longer. The broker's own principals have no use for tokens,
/// by which nobody can become them.
pub(crate) fn requester(peer: &Peer) -> Option<Principal> {
    let principal: Principal = peer.identity.principal()?.parse().ok()?;
    let is_by_token = peer.identity.delegation_token().is_some();
    let refused = is_by_token || principal == Principal::anonymous() || principal.is_reserved();
    (!refused).then_some(principal)
}

/// A principal as responses write it: type and name.
pub(crate) fn parts(principal: &Principal) -> (&str, &str) {
    let text = principal.as_str();
    text.split_once(':').unwrap_or((USER_TYPE, text))
}

/// Somebody who may be an owner or a renewer.
fn user(named: Named<'_>) -> Result<Principal, ErrorCode> {
    if named.kind != USER_TYPE || named.name == ANONYMOUS_USER {
        return Err(ErrorCode::InvalidPrincipalType);
    }
    Principal::user(named.name).map_err(|_| ErrorCode::InvalidRequest)
}

impl TokenChanges {
    pub(crate) fn new(meta: Arc<dyn MetaStore>, tokens: Arc<DelegationTokens>) -> Self {
        Self { meta, tokens }
    }

    pub(crate) fn tokens(&self) -> &DelegationTokens {
        &self.tokens
    }

    /// Replaces all tokens by those that are stored.
    pub(crate) async fn reload(&self) -> Result<(), StoreFailure> {
        self.tokens.replace(stored(&*self.meta).await?);
        Ok(())
    }

    /// How often expired tokens are to be removed.
    pub(crate) fn check_interval(&self) -> Duration {
        self.tokens.config().check_interval
    }

    /// Creates a token of this owner, or else of the requester.
    pub(crate) async fn create(
        &self,
        requester: Principal,
        owner: Option<Named<'_>>,
        renewers: &[Named<'_>],
        max_lifetime_ms: i64,
    ) -> Result<IssuedToken, ErrorCode> {
        let owner = owner.map_or_else(|| Ok(requester.clone()), user)?;
        if renewers.len() > RENEWERS_MAX {
            return Err(ErrorCode::InvalidRequest);
        }
        let renewers = renewers.iter().copied().map(user);
        let renewers = renewers.collect::<Result<Vec<_>, _>>()?;
        if self.tokens.has_room(&requester).is_err() {
            // Expired tokens take room until they are removed.
            self.sweep().await;
        }
        self.tokens.has_room(&requester).map_err(|full| {
            tracing::warn!(%requester, "a delegation token is refused: {full}");
            ErrorCode::PolicyViolation
        })?;
        let config = self.tokens.config();
        let issued_ms = self.tokens.now_ms();
        let max_ms = issued_ms.saturating_add(at_most(config.max_lifetime, max_lifetime_ms));
        let expires_ms = issued_ms.saturating_add(millis(config.expiry_time));
        let token = DelegationToken {
            id: self.tokens.new_id(),
            owner,
            requester,
            renewers,
            issued_ms,
            max_ms,
            expires_ms: expires_ms.min(max_ms),
        };
        let issued = self.tokens.issue(token.clone());
        self.put(token).await?;
        Ok(issued)
    }

    /// Changes the token with this HMAC; its id, and when it expires now. The owner and the renewers may, and a
    /// client that `revokes` everybody's tokens may let it expire.
    pub(crate) async fn change(
        &self,
        client: &Principal,
        hmac: &[u8],
        change: TokenChange,
        revokes: impl FnOnce() -> bool,
    ) -> Result<(String, i64), NotChanged> {
        let found = self.tokens.find(hmac);
        let token = found.ok_or(ErrorCode::DelegationTokenNotFound)?;
        let now_ms = self.tokens.now_ms();
        let refused = |code| NotChanged {
            code,
            id: Some(token.id.clone()),
        };
        let expired = token.is_expired(now_ms);
        let is_expiry = matches!(change, TokenChange::Expire(_));
        let allowed = token.may_be_renewed_by(client) || (is_expiry && revokes());
        let left_ms = match change {
            TokenChange::Renew(_) if expired => {
                return Err(ErrorCode::DelegationTokenExpired.into());
            }
            _ if !allowed => return Err(refused(ErrorCode::DelegationTokenOwnerMismatch)),
            TokenChange::Renew(asked_ms) => at_most(self.tokens.config().expiry_time, asked_ms),
            TokenChange::Expire(..0) => {
                let removed = self.remove(vec![token.id.clone()]).await;
                removed.map_err(|error| refused(code::of_storage(&error)))?;
                return Ok((token.id.clone(), now_ms));
            }
            TokenChange::Expire(_) if expired => {
                return Err(ErrorCode::DelegationTokenExpired.into());
            }
            TokenChange::Expire(asked_ms) => asked_ms,
        };
        let expires_ms = now_ms.saturating_add(left_ms).min(token.max_ms);
        let changed = DelegationToken {
            expires_ms,
            ..(*token).clone()
        };
        self.put(changed).await.map_err(refused)?;
        Ok((token.id.clone(), expires_ms))
    }

    /// Removes the tokens of users who are deleted.
    pub(crate) async fn remove_owned(&self, users: &[&str]) -> Result<(), StoreFailure> {
        let owners = users.iter().filter_map(|user| Principal::user(user).ok());
        let owners: HashSet<Principal> = owners.collect();
        let owned = self.tokens.owned_by(&owners);
        let count = owned.len();
        if count > 0 {
            self.remove(owned).await?;
            tracing::info!(count, "delegation tokens of deleted users were removed");
        }
        Ok(())
    }

    /// Removes the tokens that have expired. Where the store fails, they stay until the next time; nobody can
    /// authenticate by them.
    pub(crate) async fn sweep(&self) {
        let expired = self.tokens.expired();
        let count = expired.len();
        if count > 0 && self.remove(expired).await.is_ok() {
            tracing::info!(count, "expired delegation tokens were removed");
        }
    }

    async fn put(&self, token: DelegationToken) -> Result<(), ErrorCode> {
        let row = DelegationTokenRow {
            id: token.id.clone(),
            owner: token.owner.to_string(),
            requester: token.requester.to_string(),
            renewers: token.renewers.iter().map(ToString::to_string).collect(),
            issued_ms: token.issued_ms,
            max_ms: token.max_ms,
            expires_ms: token.expires_ms,
        };
        let stored = self.store(vec![DelegationTokenChange::Put(row)]).await;
        stored.map_err(|error| code::of_storage(&error))?;
        self.tokens.put(token);
        Ok(())
    }

    async fn remove(&self, ids: Vec<String>) -> Result<(), StoreFailure> {
        let changes = ids.iter().cloned().map(DelegationTokenChange::Remove);
        self.store(changes.collect()).await?;
        ids.iter().for_each(|id| self.tokens.remove(id));
        Ok(())
    }

    async fn store(&self, changes: Vec<DelegationTokenChange>) -> Result<(), StoreFailure> {
        let stored = self.meta.change_delegation_tokens(changes).await;
        stored.inspect_err(|error| {
            tracing::warn!(%error, "delegation tokens could not be stored");
        })
    }
}

/// What a client asks for, but no more than what is configured, which holds where it asks for nothing.
fn at_most(configured: Duration, asked_ms: i64) -> i64 {
    let configured_ms = millis(configured);
    match asked_ms {
        1.. => asked_ms.min(configured_ms),
        _ => configured_ms,
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
