//! Frames in, responses out, measured.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use bytes::BytesMut;
use millrace_meta::StoreFailure;
use millrace_model::TopicName;
use millrace_wire::{
    ApiKey, MalformedRequest, encode_unsupported_api_versions,
    error_code::ErrorCode,
    parse_request,
    service::{Accepted, BoxFuture, CloseReason, Peer, RefusedCertificate, Service},
};
use tokio::sync::Semaphore;

use crate::{
    authorization::FailedSignIn,
    call::{Call, Taken},
    client_metrics::{ClientMetricsFilter, MeasuredClients},
    context::{ApiParts, Context},
    quota::QuotaUses,
    registry::handler,
    sign_in,
    work::Work,
};

/// Serves every API. Cheap to clone.
#[derive(Clone)]
pub struct ApiService {
    context: Arc<Context>,
}

impl fmt::Debug for ApiService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.context.fmt(f)
    }
}

impl ApiService {
    /// A service on these parts.
    #[must_use]
    pub fn new(parts: ApiParts) -> Self {
        Self {
            context: Context::new(parts),
        }
    }

    /// The places for batches that may decompress to [`millrace_record::DECOMPRESSED_BYTES_MAX`] each:
    /// who decompresses such a batch elsewhere in the broker takes one as well.
    #[must_use]
    pub fn inspection_places(&self) -> Arc<Semaphore> {
        self.context.inspection.places()
    }

    /// Ends the waiting of fetches for data and of group members for each other. To be called when
    /// the broker begins to drain, so that nobody waits for what will not come.
    pub fn stop_waiting(&self) {
        self.context.purgatory.close();
        self.context.groups.stop_waiting();
    }

    /// Number of fetches that wait for data.
    #[must_use]
    pub fn delayed_fetches(&self) -> usize {
        self.context.purgatory.delayed()
    }

    /// What clients use of their quotas now.
    #[must_use]
    pub fn quota_uses(&self) -> QuotaUses {
        self.context.quotas.uses(self.context.now())
    }

    /// The metrics that clients have pushed to this broker.
    #[must_use]
    pub fn client_metrics(&self, filter: &ClientMetricsFilter) -> MeasuredClients {
        self.context.client_metrics.shown(filter)
    }

    /// Forgets what this broker keeps of topics that another broker has deleted: what groups have committed in them, and
    /// their metrics. Share partitions of them go as well.
    pub async fn topics_deleted_elsewhere(&self, topics: &BTreeSet<TopicName>) {
        self.context.groups.topics_deleted(topics).await;
        self.context.share_coordinator.topics_deleted(topics).await;
        for topic in topics {
            self.context.metrics.forget_topic(topic);
        }
    }

    /// Reads ACLs, client quotas, SCRAM credentials and delegation tokens again, and applies them. To be called
    /// when another broker of the cluster has changed them. As with changes by this broker, clients stay
    /// connected, and what they have used of their quotas still counts. Each kind is replaced atomically.
    ///
    /// The reload takes its turn among the changes by this broker, so it never undoes one of them. Once it has
    /// been queued, it completes even if the future is dropped.
    ///
    /// # Errors
    /// The store failed, or holds what this program would never write. A kind that could not be read stays as
    /// it was; the others are replaced. Call it again until it succeeds.
    pub async fn reload_security(&self) -> Result<(), StoreFailure> {
        let context = Arc::clone(&self.context);
        let reload = async move { context.reload_security().await };
        self.context.security_changes.enqueue(reload).await.await
    }

    async fn take(&self, peer: &Arc<Peer>, frame: BytesMut) -> Accepted {
        let started = self.context.now();
        let guarded = peer.identity.must_authenticate();
        if guarded && self.context.sign_in.expects_bare(peer) {
            return self.context.sign_in.bare_token(peer, &frame, started).await;
        }
        let request = match parse_request(frame.freeze()) {
            Ok(request) => request,
            Err(malformed) => return self.refuse(malformed),
        };
        let key = request.api_key;
        if guarded && let Err(reason) = sign_in::admit(peer, key, started) {
            return Accepted::Close(reason);
        }
        let Some(handler) = handler(key) else {
            let correlation_id = request.correlation_id;
            let unknown = MalformedRequest::UnknownApi {
                api_key: key as i16,
                correlation_id,
            };
            return self.refuse(unknown);
        };
        let call = Call {
            request,
            peer: Arc::clone(peer),
        };
        let mut work = Work::new(&self.context, &call, started);
        match work.of(handler(&self.context, call)).await {
            Ok(Taken::Now(answer)) => Accepted::Ready(work.answered(answer)),
            Ok(Taken::Later(rest)) => Accepted::Pending(Box::pin(work.answer(rest))),
            Ok(Taken::Last(rest, reason)) => Accepted::Last(Box::pin(work.answer(rest)), reason),
            Ok(Taken::Silent(rest)) => Accepted::Silent(Box::pin(work.silent(rest))),
            Err(reason) => {
                tracing::debug!(%reason, ?key, peer = %peer.address, "closing the connection");
                work.measure(ErrorCode::InvalidRequest.code(), Duration::ZERO);
                Accepted::Close(reason)
            }
        }
    }

    /// What is no request ends the connection, as in Kafka; only a client that asks for our
    /// versions in a version that we do not know is told which ones we do (KIP-511).
    fn refuse(&self, malformed: MalformedRequest) -> Accepted {
        self.context.metrics.malformed();
        if let MalformedRequest::UnsupportedVersion {
            api_key: ApiKey::ApiVersions,
            correlation_id,
            ..
        } = malformed
        {
            return match encode_unsupported_api_versions(correlation_id) {
                Ok(response) => Accepted::Ready(response),
                Err(error) => Accepted::Close(CloseReason::Unencodable(error)),
            };
        }
        tracing::debug!(%malformed, "closing the connection");
        Accepted::Close(CloseReason::Malformed(malformed))
    }
}

impl Service for ApiService {
    fn accept<'a>(&'a self, peer: &'a Arc<Peer>, frame: BytesMut) -> BoxFuture<'a, Accepted> {
        Box::pin(self.take(peer, frame))
    }

    fn certificate_refused(&self, refused: RefusedCertificate<'_>) {
        self.context.authorization.sign_in_failed(&FailedSignIn {
            address: refused.address,
            listener: refused.listener,
            principal: None,
            mechanism: "TLS",
            claimed: refused.subject,
            claimed_delegation_token: None,
            reason: refused.reason,
        });
    }

    fn disconnected(&self, peer: &Arc<Peer>) {
        self.context.cold_reads.disconnected(peer.id);
        self.context.redirects.disconnected(peer.id);
        if peer.identity.must_authenticate() {
            self.context.sign_in.disconnected(peer);
        }
    }
}
