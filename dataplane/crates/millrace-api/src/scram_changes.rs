//! Changes of users' credentials (KIP-554): checked, stored, and only then used.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use millrace_meta::{MetaStore, ScramChange, ScramRow, StoreFailure};
use millrace_security::credentials::{
    InvalidCredential, ScramCredential, ScramHash, ScramUsers, check_new_user, check_user,
};
use millrace_wire::error_code::ErrorCode;

use crate::{code, delegation_tokens::TokenChanges, topics::Refused};

/// One change that is asked for.
#[derive(Debug)]
pub(crate) struct AskedChange {
    pub(crate) user: String,
    pub(crate) mechanism: i8,
    /// Nothing where the credential is to be removed.
    pub(crate) new: Option<NewPassword>,
}

/// A password as clients send it: salted and hashed.
pub(crate) struct NewPassword {
    pub(crate) iterations: i32,
    pub(crate) salt: Vec<u8>,
    pub(crate) salted_password: Vec<u8>,
}

/// What it holds is as good as the password.
impl std::fmt::Debug for NewPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NewPassword")
    }
}

/// A change that can be carried out.
struct Checked {
    user: String,
    hash: ScramHash,
    new: Option<ScramCredential>,
}

/// Carries changes out. Changes run in [`SecurityChanges`](crate::security_changes::SecurityChanges), one
/// after the other.
#[derive(Debug)]
pub(crate) struct ScramChanges {
    meta: Arc<dyn MetaStore>,
    users: Arc<ScramUsers>,
    /// Those of a user go with the last credential.
    tokens: Option<Arc<TokenChanges>>,
}

/// The users as they are stored.
///
/// # Errors
/// The store failed, or holds what this program would never write.
pub async fn scram_users(meta: &dyn MetaStore) -> Result<ScramUsers, StoreFailure> {
    Ok(ScramUsers::new(stored(meta).await?))
}

/// A credential with its mechanism and user.
type Stored = (ScramHash, String, ScramCredential);

async fn stored(meta: &dyn MetaStore) -> Result<Vec<Stored>, StoreFailure> {
    let user = |row: ScramRow| {
        let hash = ScramHash::from_code(row.mechanism).ok_or_else(|| {
            StoreFailure::Corrupt(format!("a credential has the mechanism {}", row.mechanism))
        })?;
        let credential = ScramCredential {
            iterations: row.iterations,
            salt: row.salt,
            stored_key: row.stored_key,
            server_key: row.server_key,
        };
        Ok((hash, row.user, credential))
    };
    meta.scram_credentials()
        .await?
        .into_iter()
        .map(user)
        .collect()
}

impl ScramChanges {
    pub(crate) fn new(
        meta: Arc<dyn MetaStore>,
        users: Arc<ScramUsers>,
        tokens: Option<Arc<TokenChanges>>,
    ) -> Self {
        Self {
            meta,
            users,
            tokens,
        }
    }

    pub(crate) fn users(&self) -> &ScramUsers {
        &self.users
    }

    /// Replaces all credentials by those that are stored. To be called after [`TokenChanges::reload`]: a token
    /// that is known by then is older than the deletion of its owner.
    pub(crate) async fn reload(&self) -> Result<(), StoreFailure> {
        let stored = stored(&*self.meta).await?;
        if let Some(tokens) = &self.tokens {
            let kept: HashSet<&str> = stored.iter().map(|(_, user, _)| user.as_str()).collect();
            let known = self.users.describe(None);
            let names = known.iter().map(|(user, _)| user.as_str());
            let deleted: Vec<&str> = names.filter(|user| !kept.contains(user)).collect();
            // The broker that deleted the user may not have known all of them yet.
            tokens.remove_owned(&deleted).await?;
        }
        self.users.replace(stored);
        Ok(())
    }

    /// Carries changes out: each user's all or none. What became of each user, by name. Kafka refuses a user with two mechanisms,
    /// which its own `kafka-configs` sends for one command; here both are changed.
    pub(crate) async fn apply(
        &self,
        asked: Vec<AskedChange>,
    ) -> BTreeMap<String, Result<(), Refused>> {
        let mut results: BTreeMap<String, Result<(), Refused>> = BTreeMap::new();
        let mut checked = Vec::with_capacity(asked.len());
        let (mut seen, mut added) = (HashSet::new(), 0);
        for change in asked {
            let user = change.user.clone();
            if matches!(results.get(&user), Some(Err(_))) {
                // The first error stays.
                continue;
            }
            let twice = !seen.insert((user.clone(), change.mechanism));
            let outcome = match twice {
                true => {
                    let message = "A user credential cannot be altered twice in the same request";
                    Err(Refused::new(ErrorCode::DuplicateResource, message))
                }
                false => self.check(change, &mut added),
            };
            match outcome {
                Ok(change) => {
                    results.entry(user).or_insert(Ok(()));
                    checked.push(change);
                }
                Err(refused) => {
                    results.insert(user, Err(refused));
                }
            }
        }
        checked.retain(|change| matches!(results.get(&change.user), Some(Ok(()))));
        if let Err(refused) = self.store(checked).await {
            for result in results.values_mut().filter(|result| result.is_ok()) {
                *result = Err(refused.clone());
            }
        }
        results
    }

    fn check(&self, change: AskedChange, added: &mut usize) -> Result<Checked, Refused> {
        let AskedChange {
            user,
            mechanism,
            new,
        } = change;
        let unacceptable = |error: InvalidCredential| {
            Refused::new(ErrorCode::UnacceptableCredential, error.to_string())
        };
        check_user(&user).map_err(unacceptable)?;
        let hash = ScramHash::from_code(mechanism).ok_or_else(|| {
            Refused::new(
                ErrorCode::UnsupportedSaslMechanism,
                "Unknown SCRAM mechanism",
            )
        })?;
        let exists = self.users.get(hash, &user).is_some();
        let new = match new {
            None if !exists => {
                let message = "Attempt to delete a user credential that does not exist";
                return Err(Refused::new(ErrorCode::ResourceNotFound, message));
            }
            None => None,
            Some(new) => {
                check_new_user(&user).map_err(unacceptable)?;
                *added += usize::from(!exists);
                self.users.has_room(*added).map_err(unacceptable)?;
                let made = ScramCredential::from_salted_password(
                    hash,
                    &new.salt,
                    new.iterations,
                    &new.salted_password,
                );
                Some(made.map_err(unacceptable)?)
            }
        };
        Ok(Checked { user, hash, new })
    }

    /// The users who keep no credential.
    fn deleted<'a>(&self, checked: &'a [Checked]) -> Vec<&'a str> {
        let mut kept = HashMap::<&str, HashSet<ScramHash>>::new();
        for Checked { user, hash, new } in checked {
            let of_user = kept.entry(user).or_insert_with(|| {
                let every = ScramHash::EVERY.into_iter();
                every
                    .filter(|hash| self.users.get(*hash, user).is_some())
                    .collect()
            });
            match new {
                Some(_) => of_user.insert(*hash),
                None => of_user.remove(hash),
            };
        }
        let deleted = kept.into_iter().filter(|(_, kept)| kept.is_empty());
        deleted.map(|(user, _)| user).collect()
    }

    async fn store(&self, checked: Vec<Checked>) -> Result<(), Refused> {
        if checked.is_empty() {
            return Ok(());
        }
        // Before the credentials: a failure between the two leaves a user without tokens, not tokens without a user.
        if let Some(tokens) = &self.tokens {
            let deleted = self.deleted(&checked);
            let removed = tokens.remove_owned(&deleted).await;
            removed.map_err(|error| Refused::from(code::of_storage(&error)))?;
        }
        let row = |change: &Checked| match &change.new {
            None => ScramChange::Remove {
                user: change.user.clone(),
                mechanism: change.hash.code(),
            },
            Some(new) => ScramChange::Put(ScramRow {
                user: change.user.clone(),
                mechanism: change.hash.code(),
                iterations: new.iterations,
                salt: new.salt.clone(),
                stored_key: new.stored_key.clone(),
                server_key: new.server_key.clone(),
            }),
        };
        let rows = checked.iter().map(row).collect();
        self.meta
            .change_scram_credentials(rows)
            .await
            .map_err(|error| {
                tracing::warn!(%error, "credentials could not be stored");
                Refused::from(code::of_storage(&error))
            })?;
        for Checked { user, hash, new } in checked {
            tracing::info!(
                user,
                ?hash,
                removed = new.is_none(),
                "a credential was changed"
            );
            self.users.set(hash, &user, new);
        }
        Ok(())
    }
}
