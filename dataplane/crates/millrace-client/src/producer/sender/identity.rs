//! The producer's id and epoch.

use std::future::pending;

use millrace_wire::messages::InitProducerIdRequest;

use super::Sender;
use crate::{
    client::Client,
    error::{BrokerError, RequestError},
    producer::{accumulator::Counters, error::DeliveryError, partition::Identity},
    transport::BoxFuture,
};

/// What InitProducerId told.
pub(super) type Initialized = Result<Identity, RequestError>;

/// Whether there is an identity, or the request for one.
pub(super) struct IdentityState {
    is_idempotent: bool,
    current: Option<Identity>,
    request: Option<BoxFuture<'static, Initialized>>,
}

impl IdentityState {
    pub(super) fn new(is_idempotent: bool) -> Self {
        Self {
            is_idempotent,
            current: None,
            request: None,
        }
    }

    /// The identity; nothing without idempotence.
    pub(super) fn current(&self) -> Option<Identity> {
        self.current
    }

    /// Whether batches can be signed. Asks for an identity where one is needed.
    pub(super) fn is_ready(&mut self, client: &Client) -> bool {
        if !self.is_idempotent || self.current.is_some() {
            return true;
        }
        if self.request.is_none() {
            self.request = Some(Box::pin(initialize(client.clone())));
        }
        false
    }

    /// The answer to the request for an identity. Cancel-safe.
    pub(super) async fn initialized(&mut self) -> Initialized {
        let result = match &mut self.request {
            Some(request) => request.await,
            None => pending().await,
        };
        self.request = None;
        result
    }
}

impl Sender {
    pub(super) fn identified(&mut self, result: Initialized) {
        match result {
            Ok(identity) => {
                tracing::debug!(id = identity.id, epoch = identity.epoch, "producer id");
                self.identity.current = Some(identity);
                // Partitions whose sequences wait for a new identity.
                for topic in self.accumulator.topics() {
                    let partitions: Vec<_> = topic.partitions().clone();
                    partitions.iter().for_each(|queue| self.visit(queue));
                }
            }
            Err(error) => self.accumulator.abort(&DeliveryError::Request(error)),
        }
    }

    /// The identity under which a partition starts over that has used `used`: another epoch, unless
    /// the producer has one by now. Nothing while there is none.
    pub(super) fn identity_after(&mut self, used: Option<Identity>) -> Option<Identity> {
        let current = self.identity.current?;
        if used != Some(current) {
            return Some(current);
        }
        Counters::add(&self.accumulator.counters.epoch_bumps, 1);
        match current.epoch.checked_add(1) {
            Some(epoch) if epoch < i16::MAX => {
                let next = Identity { epoch, ..current };
                self.identity.current = Some(next);
                Some(next)
            }
            // All epochs of the id are used: another id begins with the first.
            _ => {
                self.identity.current = None;
                self.identity.is_ready(&self.client);
                None
            }
        }
    }
}

/// Asks any broker for a producer id, until one has it.
async fn initialize(client: Client) -> Initialized {
    let mut failures = 0;
    loop {
        let asked = client
            .call_any::<InitProducerIdRequest>(i16::MAX, |_| {
                // The message's own default is an empty id, which is not none.
                InitProducerIdRequest::default()
                    .with_transactional_id(None)
                    .with_transaction_timeout_ms(i32::MAX)
            })
            .await;
        let checked = asked.and_then(|response| {
            BrokerError::check(response.error_code, None)?;
            Ok(Identity {
                id: response.producer_id.0,
                epoch: response.producer_epoch,
            })
        });
        match checked {
            Err(error) if error.is_retriable() => {
                failures += 1;
                let random = &*client.config().random;
                let pause = client.retry_backoff().after(failures, random);
                tracing::warn!(%error, "no producer id; retrying in {pause:?}");
                tokio::time::sleep(pause).await;
            }
            result => return result,
        }
    }
}
