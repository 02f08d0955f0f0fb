//! ApiVersions: the supported APIs and features. The service itself answers an unsupported version of it.

use std::sync::Arc;

use millrace_wire::{
    advertised_versions, decode,
    error_code::{ErrorCode, NONE},
    messages::{ApiVersionsRequest, ApiVersionsResponse},
    service::ClientSoftware,
};

use crate::{
    call::{Call, Outcome},
    context::Context,
    features,
};

/// The first version in which clients tell their name and version (KIP-511).
const FIRST_WITH_SOFTWARE_NAME: i16 = 3;
/// The first version whose answer tells features (KIP-584).
const FIRST_WITH_FEATURES: i16 = 3;

pub(crate) async fn handle(_context: &Arc<Context>, call: Call) -> Outcome {
    let request: ApiVersionsRequest = decode(&call.request)?;
    let named = call.version() >= FIRST_WITH_SOFTWARE_NAME;
    let legal = is_software_name(&request.client_software_name)
        && is_software_name(&request.client_software_version);
    if named && !legal {
        let error = ErrorCode::InvalidRequest.code();
        return call.reply().now(
            &ApiVersionsResponse::default().with_error_code(error),
            error,
        );
    }
    if named {
        call.peer.software.get_or_init(|| ClientSoftware {
            name: request.client_software_name.as_str().into(),
            version: request.client_software_version.as_str().into(),
        });
    }
    let response = ApiVersionsResponse::default().with_api_keys(advertised_versions());
    let response = match call.version() {
        FIRST_WITH_FEATURES.. => response
            .with_supported_features(features::supported(call.version()))
            .with_finalized_features_epoch(features::FINALIZED_EPOCH)
            .with_finalized_features(features::finalized()),
        _ => response,
    };
    call.reply().now(&response, NONE)
}

/// Letters and digits, and between them `-` and `.`.
fn is_software_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter()
        .all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_client_software() {
        for legal in [
            "a",
            "apache-kafka-java",
            "4.2.0",
            "librdkafka",
            "2.10.0-RC1",
        ] {
            assert!(is_software_name(legal), "{legal}");
        }
        for illegal in ["", "-a", "a.", "a b", "é"] {
            assert!(!is_software_name(illegal), "{illegal}");
        }
    }
}
