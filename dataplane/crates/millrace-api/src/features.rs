//! The feature levels that clients are told (KIP-584, KIP-1022).
//!
//! A level says which protocol the whole cluster speaks; clients and tools read it from ApiVersions. Here it
//! comes with the broker's version: no operator raises it, and nothing lowers it.

use millrace_wire::{
    StrBytes,
    messages::api_versions_response::{FinalizedFeatureKey, SupportedFeatureKey},
};

/// A feature, its levels in Kafka, and the one in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Feature {
    pub(crate) name: &'static str,
    pub(crate) min: i16,
    pub(crate) max: i16,
    /// 0 where the feature is disabled.
    pub(crate) finalized: i16,
}

/// The features that are served, by name.
///
/// Left out, because nothing here implements them: `eligible.leader.replicas.version` (there are no replicas
/// to elect), `kraft.version` (there is no Raft quorum) and `streams.version`.
pub(crate) const FEATURES: &[Feature] = &[
    // The consumer protocol of KIP-848.
    Feature {
        name: "group.version",
        min: 0,
        max: 1,
        finalized: 1,
    },
    // No metadata log has these levels. Tools read from it which release of Kafka the cluster behaves like: 4.2-IV1.
    Feature {
        name: "metadata.version",
        min: 7,
        max: 29,
        finalized: 29,
    },
    // Share groups (KIP-932).
    Feature {
        name: "share.version",
        min: 0,
        max: 1,
        finalized: 1,
    },
    // 1: flexible fields in the state of transactions; 2: transactions end with a new epoch (KIP-890).
    Feature {
        name: "transaction.version",
        min: 0,
        max: 2,
        finalized: 2,
    },
];

/// Clients believe the greatest epoch that any broker tells them, so it must grow with each change of a
/// finalized level in [`FEATURES`].
pub(crate) const FINALIZED_EPOCH: i64 = 2;

/// The first version of ApiVersions whose clients take 0 for a supported level; older ones refuse the whole
/// answer (KIP-1022).
const FIRST_WITH_LEVEL_0: i16 = 4;

/// The feature of this name.
pub(crate) fn feature(name: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|feature| feature.name == name)
}

/// What an answer to ApiVersions of this version lists as supported.
pub(crate) fn supported(version: i16) -> Vec<SupportedFeatureKey> {
    let is_told = |feature: &&Feature| version >= FIRST_WITH_LEVEL_0 || feature.min > 0;
    let tell = |feature: &Feature| {
        SupportedFeatureKey::default()
            .with_name(StrBytes::from_static_str(feature.name))
            .with_min_version(feature.min)
            .with_max_version(feature.max)
    };
    FEATURES.iter().filter(is_told).map(tell).collect()
}

/// What an answer to ApiVersions lists as finalized; a disabled feature is not among it.
pub(crate) fn finalized() -> Vec<FinalizedFeatureKey> {
    let tell = |feature: &Feature| {
        FinalizedFeatureKey::default()
            .with_name(StrBytes::from_static_str(feature.name))
            .with_min_version_level(feature.finalized)
            .with_max_version_level(feature.finalized)
    };
    let enabled = FEATURES.iter().filter(|feature| feature.finalized > 0);
    enabled.map(tell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_listed_once_with_a_level_that_is_supported() {
        assert!(FEATURES.is_sorted_by(|a, b| a.name < b.name));
        for Feature {
            name,
            min,
            max,
            finalized,
        } in FEATURES
        {
            assert!((min..=max).contains(&finalized), "{name}");
        }
    }

    #[test]
    fn old_clients_are_told_no_level_0() {
        assert!(supported(3).iter().all(|feature| feature.min_version > 0));
        assert_eq!(supported(4).len(), FEATURES.len());
    }
}
