//! Finding the objects that hold a stream from an offset on.
//!
//! Lookups that come while others run wait, and the next query answers all of them. A broker that takes over thousands of
//! partitions looks up two streams of each: the objects hold those streams together, and one query reads each object once.

use std::collections::VecDeque;

use millrace_model::{ObjectId, Offset, StreamId, StreamRange};
use parking_lot::Mutex;
use sqlx::PgPool;
use tokio::sync::{Semaphore, oneshot};

use super::{
    connect::LOOKUP_CONNECTIONS,
    objects::{kind_from_sql, saturated},
};
use crate::{ObjectRange, StoreFailure, number::from_sql};

/// Lookups that one query answers, at most.
const LOOKUPS_PER_QUERY_MAX: usize = 512;

type Found = Result<Vec<ObjectRange>, StoreFailure>;

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lookup {
    pub(super) stream: StreamId,
    pub(super) from: Offset,
    pub(super) limit: usize,
}

/// The lookups of one store.
#[derive(Debug)]
pub(super) struct Lookups {
    /// As many as there are callers. Those whose callers are gone leave with the next query.
    waiting: Mutex<VecDeque<(Lookup, oneshot::Sender<Found>)>>,
    /// One permit per connection, so that waiting lookups join the next query instead of waiting for the pool.
    turns: Semaphore,
    pool: PgPool,
}

impl Lookups {
    pub(super) fn new(pool: PgPool) -> Self {
        Self {
            waiting: Mutex::default(),
            turns: Semaphore::new(LOOKUP_CONNECTIONS as usize),
            pool,
        }
    }

    /// Answers a lookup, and with the same query those that wait beside it.
    pub(super) async fn find(&self, lookup: Lookup) -> Found {
        loop {
            let (reply, mut answer) = oneshot::channel();
            self.waiting.lock().push_back((lookup, reply));
            let answered = loop {
                let turn = tokio::select! {
                    biased;
                    answered = &mut answer => break answered,
                    turn = self.turns.acquire() => turn,
                };
                if !self.answer_some().await {
                    // This one is in a query that somebody else runs.
                    drop(turn);
                    break answer.await;
                }
            };
            // Whoever ran the query may have been cancelled.
            if let Ok(found) = answered {
                return found;
            }
        }
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

    /// Answers those who wait, as far as one query goes; `false` where nobody does.
    async fn answer_some(&self) -> bool {
        let (lookups, replies): (Vec<_>, Vec<_>) = {
            let mut waiting = self.waiting.lock();
            waiting.retain(|(_, reply)| !reply.is_closed());
            let count = waiting.len().min(LOOKUPS_PER_QUERY_MAX);
            waiting.drain(..count).unzip()
        };
        if lookups.is_empty() {
            return false;
        }
        let mut found = query(&self.pool, &lookups).await;
        for (nth, reply) in replies.into_iter().enumerate() {
            let of_one = match &mut found {
                Ok(found) => Ok(std::mem::take(&mut found[nth])),
                Err(failure) => Err(again(failure)),
            };
            // Whoever asked may be gone.
            drop(reply.send(of_one));
        }
        true
    }
}

/// A copy of the failure for another caller.
fn again(failure: &StoreFailure) -> StoreFailure {
    match failure {
        StoreFailure::Database(source) => StoreFailure::Database(source.to_string().into()),
        StoreFailure::Corrupt(what) => StoreFailure::Corrupt(what.clone()),
        StoreFailure::TooLarge(number) => StoreFailure::TooLarge(*number),
    }
}

/// The connections find stream sets by their streams' index alone (migration 0008).
///
/// Of each stream set, only the part between the lowest and the highest wanted stream is read: it has thousands of ranges, in the
/// order of their streams.
async fn query(pool: &PgPool, lookups: &[Lookup]) -> Result<Vec<Vec<ObjectRange>>, StoreFailure> {
    let streams: Vec<i64> = lookups
        .iter()
        .map(|lookup| saturated(lookup.stream.get()))
        .collect();
    let starts: Vec<i64> = lookups
        .iter()
        .map(|lookup| saturated(lookup.from))
        .collect();
    let limits: Vec<i64> = lookups
        .iter()
        .map(|lookup| i64::try_from(lookup.limit).unwrap_or(i64::MAX))
        .collect();
    let rows: Vec<(i64, i64, i64, i16, i64, i64)> = sqlx::query_as(
        "WITH wanted AS MATERIALIZED (
           SELECT nth, stream_id, greatest(streams.start_offset, asked.start_offset) AS start_offset, most
           FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS asked (stream_id, start_offset, most, nth)
           JOIN streams USING (stream_id)),
         found AS (
           SELECT nth, most, own.*
           FROM wanted, LATERAL (
             SELECT object_id, size, kind, starts[1] AS start_offset, ends[1] AS end_offset
             FROM objects
             WHERE state = 2 AND kind = 2 AND stream_ids[1] = wanted.stream_id AND ends[1] > wanted.start_offset
             ORDER BY ends[1] LIMIT most) AS own
           UNION ALL
           SELECT nth, most, object_id, size, kind, ranges.start_offset, ranges.end_offset
           FROM objects,
             LATERAL (SELECT width_bucket($4::bigint - 1, stream_ids) + 1 AS first, width_bucket($5::bigint, stream_ids) AS last OFFSET 0) AS part,
             unnest(stream_ids[first:last], starts[first:last], ends[first:last]) AS ranges (stream_id, start_offset, end_offset)
             JOIN wanted USING (stream_id)
           WHERE state = 2 AND kind = 1 AND objects.stream_ids && $1 AND ranges.end_offset > wanted.start_offset)
         SELECT nth, object_id, size, kind, start_offset, end_offset
         FROM (SELECT *, row_number() OVER (PARTITION BY nth ORDER BY end_offset) AS place FROM found) AS placed
         WHERE place <= most
         ORDER BY nth, start_offset",
    )
    .bind(&streams)
    .bind(starts)
    .bind(limits)
    .bind(streams.iter().min())
    .bind(streams.iter().max())
    .fetch_all(pool)
    .await?;
    let mut found = vec![Vec::new(); lookups.len()];
    for (nth, object, size, kind, start, end) in rows {
        // PostgreSQL counts from 1.
        let nth = usize::try_from(nth - 1).unwrap_or(usize::MAX);
        let of_one = found.get_mut(nth).zip(lookups.get(nth));
        let (of_one, lookup) = of_one.ok_or_else(|| {
            StoreFailure::Corrupt(format!("lookup {nth} of {} was answered", lookups.len()))
        })?;
        of_one.push(ObjectRange {
            object: ObjectId(from_sql(object)?),
            size: from_sql(size)?,
            range: StreamRange {
                stream: lookup.stream,
                start: from_sql(start)?,
                end: from_sql(end)?,
            },
            kind: kind_from_sql(kind)?,
        });
    }
    Ok(found)
}
