//! The versions of APIs that a broker offers.

use std::collections::BTreeMap;

use bytes::Bytes;
use millrace_wire::{
    RequestMessage, StrBytes, VersionRange,
    client::negotiate,
    messages::{ApiVersionsRequest, ApiVersionsResponse},
};

use super::Connection;
use crate::error::{BrokerError, ErrorCode, RequestError};

/// Kafka 2.4 and later know it. Version 4 differs only in features, which clients do not use.
const API_VERSIONS: i16 = 3;
/// Every broker knows it.
const API_VERSIONS_OLDEST: i16 = 0;
/// The client's software for the broker's metrics (KIP-511): letters, digits, dots, dashes.
const SOFTWARE_NAME: &str = "millrace-client";

/// What ApiVersions told.
#[derive(Debug, Clone, Default)]
pub(crate) struct BrokerVersions(BTreeMap<i16, VersionRange>);

impl BrokerVersions {
    pub(crate) fn new(response: &ApiVersionsResponse) -> Self {
        let range = |(min, max)| VersionRange { min, max };
        let keys = response.api_keys.iter();
        Self(
            keys.map(|api| (api.api_key, range((api.min_version, api.max_version))))
                .collect(),
        )
    }

    pub(crate) fn negotiate<M: RequestMessage>(&self, newest: i16) -> Option<i16> {
        negotiate::<M>(*self.0.get(&M::KEY)?, newest)
    }
}

impl Connection {
    /// Asks for the broker's versions. One that does not know the question's own version answers in
    /// the oldest one.
    pub(super) async fn negotiate(&self) -> Result<(), RequestError> {
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str(SOFTWARE_NAME))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        let timeout = self.inner.request_timeout;
        let mut version = API_VERSIONS;
        let mut frame = self.call_raw(version, &request, timeout).await?;
        if is_unsupported(&frame) {
            version = API_VERSIONS_OLDEST;
            let request = ApiVersionsRequest::default();
            frame = self.call_raw(version, &request, timeout).await?;
        }
        let response = self.decode::<ApiVersionsRequest>(version, frame)?;
        BrokerError::check(response.error_code, None)?;
        let versions = BrokerVersions::new(&response);
        self.inner
            .versions
            .set(versions)
            .map_err(|_| RequestError::Closed)
    }
}

/// The error code follows the correlation id in every version.
fn is_unsupported(frame: &Bytes) -> bool {
    frame
        .get(4..)
        .and_then(|body| body.first_chunk())
        .is_some_and(|code| i16::from_be_bytes(*code) == ErrorCode::UNSUPPORTED_VERSION.code())
}
