//! Commits: of what is processed, regularly and before partitions are given up.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{
    config::AutoCommit, coordinator::Coordinator, error::ConsumerError, flow::DueCommit,
    reader::Shared,
};
use crate::{group_offsets::CommittedOffset, topic_partition::TopicPartition};

/// How often a rebalance looks whether everything is processed.
const DRAIN_INTERVAL: Duration = Duration::from_millis(5);

/// Commits what is processed, every
/// [`auto_commit_interval`](super::ConsumerConfig::auto_commit_interval), and once more at the end where
/// partitions were assigned by hand.
pub(super) async fn commit_regularly(shared: Arc<Shared>, ended: CancellationToken) {
    let timeout = shared.client.config().request_timeout;
    let regularly = async {
        loop {
            tokio::time::sleep(shared.config.auto_commit_interval).await;
            if let Err(error) = shared.commit(false, timeout).await {
                tracing::warn!(%error, "offsets could not be committed; trying again later");
            }
        }
    };
    tokio::select! {
        () = ended.cancelled() => {}
        () = regularly => {}
    }
    // Nobody can report anything as processed any more. A member of a group commits as it leaves; and
    // after `close` there is nothing left to commit.
    if shared.is_manual.load(Ordering::Acquire)
        && let Err(error) = shared.commit(false, timeout).await
    {
        tracing::warn!(%error, "the last offsets could not be committed");
    }
}

impl Shared {
    /// Whether commits follow what is processed, without being asked for.
    pub(super) fn commits_by_itself(&self) -> bool {
        self.coordinator.is_some() && self.config.auto_commit != AutoCommit::Off
    }

    pub(super) fn coordinator(&self) -> Result<&Coordinator, ConsumerError> {
        let missing = ConsumerError::Misuse("commits need a group_id");
        self.coordinator.as_ref().ok_or(missing)
    }

    /// Commits before partitions are given up: waits for what is being processed, where the reader
    /// reports that.
    pub(super) async fn commit_last(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<(), ConsumerError> {
        if !self.commits_by_itself() {
            return Ok(());
        }
        let deadline = self.now() + self.config.revocation_wait;
        while self.now() < deadline && self.with(|flow| flow.has_unprocessed(partitions)) {
            tokio::time::sleep(DRAIN_INTERVAL).await;
        }
        let timeout = self.client.config().request_timeout;
        self.commit(false, timeout).await
    }

    /// Commits as the caller asks. Where a rebalance refuses the commit, it is repeated in the next
    /// generation, as long as the member keeps its partitions.
    pub(super) async fn commit_asked(&self, timeout: Duration) -> Result<(), ConsumerError> {
        let deadline = self.now() + timeout;
        loop {
            let due = self.with(|flow| flow.to_commit(true));
            let left = deadline.saturating_sub(self.now());
            let error = match self.commit(true, left).await {
                Err(error @ ConsumerError::Rebalanced(_)) => error,
                done => return done,
            };
            let keeps =
                |one: &DueCommit| self.with(|flow| flow.commit_token(&one.name)) == Some(one.token);
            if self.now() >= deadline || !due.iter().all(keeps) {
                return Err(error);
            }
            // Without a turn: a rebalance commits as well.
            tokio::time::sleep(self.client.config().retry_backoff).await;
        }
    }

    /// Commits what is processed and not yet committed.
    pub(super) async fn commit(
        &self,
        explicit: bool,
        timeout: Duration,
    ) -> Result<(), ConsumerError> {
        self.coordinator()?;
        // Before the offsets are read: commits of the same consumer must not overtake each other.
        let _turn = self.committing.lock().await;
        let due = self.with(|flow| flow.to_commit(explicit));
        let token = |one: &DueCommit| (one.name.clone(), one.token);
        let tokens: Vec<_> = due.iter().map(token).collect();
        let offset = |one: DueCommit| {
            let committed = CommittedOffset {
                offset: one.offset,
                leader_epoch: one.leader_epoch,
                metadata: String::new(),
            };
            (one.name, committed)
        };
        let offsets = due.into_iter().map(offset).collect();
        self.commit_in_turn(&offsets, &tokens, timeout).await
    }

    /// Commits these offsets.
    pub(super) async fn commit_offsets(
        &self,
        offsets: &HashMap<TopicPartition, CommittedOffset>,
        timeout: Duration,
    ) -> Result<(), ConsumerError> {
        let _turn = self.committing.lock().await;
        let tokens = self.with(|flow| {
            let token = |name: &TopicPartition| Some((name.clone(), flow.commit_token(name)?));
            offsets.keys().filter_map(token).collect::<Vec<_>>()
        });
        self.commit_in_turn(offsets, &tokens, timeout).await
    }

    async fn commit_in_turn(
        &self,
        offsets: &HashMap<TopicPartition, CommittedOffset>,
        tokens: &[(TopicPartition, u64)],
        timeout: Duration,
    ) -> Result<(), ConsumerError> {
        let coordinator = self.coordinator()?;
        if offsets.is_empty() {
            return Ok(());
        }
        let instance = self.config.group_instance_id.as_deref();
        coordinator
            .commit(&self.client, instance, offsets, timeout)
            .await?;
        self.with(|flow| {
            for (name, token) in tokens {
                if let Some(committed) = offsets.get(name) {
                    flow.committed(name, *token, committed.offset);
                }
            }
        });
        Ok(())
    }
}
