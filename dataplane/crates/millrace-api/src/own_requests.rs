//! Requests of the control plane that come over the admin HTTP: the handlers answer them as any client's, so
//! rights, checks and the audit log are the same, and no connection is needed.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use bytes::{Buf, Bytes, BytesMut};
use millrace_security::Principal;
use millrace_wire::{
    ApiKey, EncodeError, RequestMessage, Response, VersionRange,
    client::{MalformedResponse, decode_response, encode_request, negotiate},
    service::{Accepted, CloseReason, Identity, Peer, Service},
    support_of,
};

use crate::service::ApiService;

/// The listener that the audit log names, and the client id.
const ADMIN_HTTP: &str = "admin.listener";
/// Connections are numbered from 1, and none gets this far.
const PEER_ID: u64 = u64::MAX;
/// Bytes of a frame's length prefix.
const LENGTH_BYTES: usize = 4;

/// A request of the control plane has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OwnRequestError {
    /// The API is not served.
    #[error("API {0} is not served")]
    Unserved(i16),
    /// The request does not fit into a frame.
    #[error(transparent)]
    Unencodable(#[from] EncodeError),
    /// The handler closed the connection that is not there.
    #[error(transparent)]
    Closed(#[from] CloseReason),
    /// The handler wants no response to be sent.
    #[error("the request has no response")]
    Silent,
    /// The response cannot be read; a defect of ours.
    #[error(transparent)]
    Malformed(#[from] MalformedResponse),
}

impl ApiService {
    /// Answers a request of the control plane. A change that has begun is carried out even if nobody waits
    /// for this any more.
    ///
    /// # Errors
    /// See [`OwnRequestError`]. What the API refuses is in its response.
    pub async fn ask<M: RequestMessage>(
        &self,
        message: &M,
    ) -> Result<M::Response, OwnRequestError> {
        let unserved = OwnRequestError::Unserved(M::KEY);
        let served = ApiKey::try_from(M::KEY).ok().and_then(support_of);
        let served = served.map(|served| VersionRange {
            min: served.min,
            max: served.max,
        });
        let version = served.and_then(|served| negotiate::<M>(served, i16::MAX));
        let version = version.ok_or(unserved)?;
        let (head, rest) = encode_request(version, ADMIN_HTTP, message)?.into_segments();
        let frame = joined(head, rest);
        let response = match self.accept(&control_plane(), BytesMut::from(frame)).await {
            Accepted::Ready(response) => response,
            Accepted::Pending(response) => response.await,
            Accepted::Silent(_) => return Err(OwnRequestError::Silent),
            Accepted::Close(reason) | Accepted::Last(_, reason) => return Err(reason.into()),
        };
        let frame = joined(Bytes::new(), Response::into_segments(response));
        Ok(decode_response::<M>(version, frame)?)
    }
}

/// The frame without its length prefix.
fn joined(head: Bytes, rest: Vec<Bytes>) -> Bytes {
    let mut segments = rest;
    if !head.is_empty() {
        segments.insert(0, head);
    }
    let mut frame = match segments.len() {
        1 => segments.remove(0),
        _ => segments.concat().into(),
    };
    frame.advance(LENGTH_BYTES.min(frame.len()));
    frame
}

fn control_plane() -> Arc<Peer> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let identity = Identity::known(Principal::control_plane().as_str());
    let peer = Peer::with_identity(PEER_ID, address, ADMIN_HTTP.to_owned(), identity);
    Arc::new(peer)
}
