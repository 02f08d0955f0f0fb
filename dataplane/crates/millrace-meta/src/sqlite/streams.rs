//! Opening and trimming streams.

use millrace_model::{NodeEpoch, Offset, StreamEpoch, StreamId};
use sqlx::{Sqlite, Transaction};

use super::{
    Inner, begin, failure, fence,
    index::{Index, Stream},
    nodes::Sequence,
    number::{from_sql, to_sql},
    objects,
};
use crate::{OpenStreamError, StoreFailure, StreamMeta, TrimError};

/// A row of `streams`: id, epoch, owner, start, end.
type Row = (i64, i64, Option<i64>, i64, i64);

/// Begins an index with the streams that exist; their ranges are added by [`objects::load`].
pub(super) async fn load(tx: &mut Transaction<'_, Sqlite>) -> Result<Index, StoreFailure> {
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT stream_id, epoch, owner_epoch, start_offset, end_offset FROM streams",
    )
    .fetch_all(&mut **tx)
    .await?;
    let mut index = Index::new(Sequence::Stream.peek(tx).await?);
    for (id, epoch, owner, start, end) in rows {
        let owner = owner.map(from_sql).transpose()?.map(NodeEpoch);
        let epoch = StreamEpoch(from_sql(epoch)?);
        let stream = Stream::new(epoch, owner, from_sql(start)?, from_sql(end)?);
        index.streams.insert(StreamId(from_sql(id)?), stream);
    }
    Ok(index)
}

/// Inserts `count` empty streams and gives the first one's number.
pub(super) async fn create(
    tx: &mut Transaction<'_, Sqlite>,
    count: u32,
) -> Result<u64, StoreFailure> {
    let first = Sequence::Stream.take(tx, count).await?;
    for id in first..first + u64::from(count) {
        sqlx::query(
            "INSERT INTO streams (stream_id, epoch, owner_epoch, start_offset, end_offset)
             VALUES ($1, 0, NULL, 0, 0)",
        )
        .bind(to_sql(id)?)
        .execute(&mut **tx)
        .await?;
    }
    Ok(first)
}

/// Notes a stream's end in its own row.
pub(super) async fn keep_end(
    tx: &mut Transaction<'_, Sqlite>,
    stream: StreamId,
    end: Offset,
) -> Result<(), StoreFailure> {
    sqlx::query("UPDATE streams SET end_offset = $1 WHERE stream_id = $2 AND end_offset < $1")
        .bind(to_sql(end)?)
        .bind(to_sql(stream.get())?)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Lets the index know `count` streams that were created.
pub(super) fn created(index: &mut Index, first: u64, count: u32) {
    index.next_stream = first + u64::from(count);
    for id in first..index.next_stream {
        index
            .streams
            .insert(StreamId(id), Stream::new(StreamEpoch(0), None, 0, 0));
    }
}

impl Inner {
    pub(super) async fn open_streams(
        &self,
        streams: &[StreamId],
        node_epoch: NodeEpoch,
    ) -> Result<Vec<StreamMeta>, OpenStreamError> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        fence::<OpenStreamError>(&mut tx, node_epoch).await?;
        let taken: Vec<StreamId> = {
            let index = self.index.read();
            let foreign = |id: &&StreamId| {
                index
                    .streams
                    .get(id)
                    .is_some_and(|stream| stream.owner != Some(node_epoch))
            };
            streams.iter().filter(foreign).copied().collect()
        };
        for stream in &taken {
            sqlx::query(
                "UPDATE streams SET epoch = epoch + 1, owner_epoch = $1 WHERE stream_id = $2",
            )
            .bind(to_sql(node_epoch.get())?)
            .bind(to_sql(stream.get())?)
            .execute(&mut *tx)
            .await
            .map_err(failure)?;
        }
        self.commit(tx, |index| {
            for stream in &taken {
                // A stream named twice is opened once.
                if let Some(known) = index
                    .streams
                    .get_mut(stream)
                    .filter(|s| s.owner != Some(node_epoch))
                {
                    known.epoch = StreamEpoch(known.epoch.get() + 1);
                    known.owner = Some(node_epoch);
                }
            }
        })
        .await?;
        let index = self.index.read();
        let opened = streams
            .iter()
            .filter_map(|&id| Some(index.streams.get(&id)?.meta(id)));
        Ok(opened.collect())
    }

    pub(super) async fn trim_stream(
        &self,
        stream: StreamId,
        node_epoch: NodeEpoch,
        new_start: Offset,
    ) -> Result<Offset, TrimError> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        fence::<TrimError>(&mut tx, node_epoch).await?;
        let (end, dying) = {
            let index = self.index.read();
            let known = index
                .streams
                .get(&stream)
                .ok_or(TrimError::Unknown(stream))?;
            if known.owner != Some(node_epoch) {
                return Err(TrimError::NotOwner(stream));
            }
            if new_start <= known.start {
                return Ok(known.start);
            }
            (known.end, index.dying(&[(stream, new_start)]))
        };
        sqlx::query("UPDATE streams SET start_offset = $1, end_offset = $2 WHERE stream_id = $3")
            .bind(to_sql(new_start)?)
            .bind(to_sql(end)?)
            .bind(to_sql(stream.get())?)
            .execute(&mut *tx)
            .await
            .map_err(failure)?;
        objects::retire(&mut tx, &dying, self.clock.wall_ms()).await?;
        let now = self.clock.now();
        self.commit(tx, |index| {
            index.trim(stream, new_start);
            index.retire(dying, now);
        })
        .await?;
        Ok(new_start)
    }
}
