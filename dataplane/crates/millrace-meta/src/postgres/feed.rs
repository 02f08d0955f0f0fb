//! What has changed, for brokers that keep the cluster in memory.
//!
//! Each change has a revision, and revisions have no gap: the number is taken and written in the transaction of the change,
//! whose last lock it is. So a reader that has seen a revision has seen every change up to it. One transaction reads
//! what has changed and the rows as they are now, and so never mixes two revisions.

use std::collections::BTreeSet;

use millrace_model::TopicId;

use super::{PostgresMeta, Tx, brokers, commit, nodes::Sequence, topics};
use crate::{
    ChangedTopics, Changes, StoreFailure,
    number::{from_sql, to_sql},
};

/// Changes that are kept. A reader that is further behind reads everything.
const KEPT: u64 = 10_000;

const TOPICS: i16 = 1;
const BROKERS: i16 = 2;
const SECURITY: i16 = 4;
const ALL: i16 = TOPICS | BROKERS | SECURITY;

/// What a transaction has changed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change<'a> {
    /// Topics, their settings, partitions or leaders.
    Topics(&'a [TopicId]),
    /// Brokers joined, left, or were fenced; the leaders of these topics changed with them.
    Brokers(&'a [TopicId]),
    /// Credentials, quotas, access control lists, delegation tokens, configurations of groups and of client metrics.
    Security,
}

/// Commits the change with the next revision.
pub(super) async fn commit_change(mut tx: Tx, change: Change<'_>) -> Result<(), StoreFailure> {
    add(&mut tx, change).await?;
    commit(tx).await
}

/// Gives the change the next revision. It locks the revision, so a commit must follow at once.
pub(super) async fn add(tx: &mut Tx, change: Change<'_>) -> Result<(), StoreFailure> {
    let (what, topics) = match change {
        Change::Topics(topics) => (TOPICS, topics),
        Change::Brokers([]) => (BROKERS, [].as_slice()),
        Change::Brokers(topics) => (BROKERS | TOPICS, topics),
        Change::Security => (SECURITY, [].as_slice()),
    };
    let topics: Vec<&[u8]> = topics.iter().map(|id| id.0.as_bytes().as_slice()).collect();
    let revision = Sequence::Revision.take(tx, 1).await?;
    sqlx::query("INSERT INTO changes (revision, what, topics) VALUES ($1, $2, $3)")
        .bind(to_sql(revision)?)
        .bind(what)
        .bind(topics)
        .execute(&mut **tx)
        .await?;
    sqlx::query("DELETE FROM changes WHERE revision <= $1")
        .bind(to_sql(revision.saturating_sub(KEPT))?)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// The revision of the last change; 0 where there was none.
pub(super) async fn revision(meta: &PostgresMeta) -> Result<u64, StoreFailure> {
    let next: i64 = sqlx::query_scalar("SELECT next FROM sequences WHERE name = 'revision'")
        .fetch_one(&meta.pool)
        .await?;
    Ok(from_sql::<u64>(next)?.saturating_sub(1))
}

/// What has changed since the revision `since`; everything where that is too long ago to be known.
pub(super) async fn changes(meta: &PostgresMeta, since: u64) -> Result<Changes, StoreFailure> {
    let snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let mut tx = Tx::begin_as(&meta.pool, snapshot).await?;
    let revision = Sequence::Revision.peek(&mut tx).await?.saturating_sub(1);
    let rows: Vec<(i16, Option<Vec<Vec<u8>>>)> =
        sqlx::query_as("SELECT what, topics FROM changes WHERE revision > $1 ORDER BY revision")
            .bind(to_sql(since)?)
            .fetch_all(&mut *tx)
            .await?;
    let known = u64::try_from(rows.len()).unwrap_or(u64::MAX);
    // A reader that begins knows nothing, not even what was there before the first change.
    let is_complete = since > 0 && since.checked_add(known) == Some(revision);
    let what = if is_complete {
        rows.iter().fold(0, |sum, (what, _)| sum | what)
    } else {
        ALL
    };
    let named: BTreeSet<Vec<u8>> = rows
        .into_iter()
        .flat_map(|(_, topics)| topics.into_iter().flatten())
        .collect();
    let topics = if is_complete {
        let ids: Vec<Vec<u8>> = named.into_iter().collect();
        ChangedTopics::Some {
            present: topics::led(&mut tx, Some(&ids)).await?,
            named: topics::ids_from_sql(&ids)?,
        }
    } else {
        ChangedTopics::All(topics::led(&mut tx, None).await?)
    };
    let brokers = match what & BROKERS {
        0 => None,
        _ => Some(brokers::all(&mut tx).await?),
    };
    commit(tx).await?;
    Ok(Changes {
        revision,
        topics,
        brokers,
        security: what & SECURITY != 0,
    })
}
