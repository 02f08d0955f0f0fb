//! The settings that change while the broker runs.

use crate::config::{StorageConfig, keys};

/// One of them. All are whole numbers of bytes, or of bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dynamic {
    BlockCache,
    PrefetchMax,
    Ingress,
    Egress,
    WalCache,
    UploadThreshold,
}

/// What is fixed about a setting.
struct Definition {
    key: &'static str,
    /// The key whose value holds if this one is not in the file.
    fallback: Option<&'static str>,
    documentation: &'static str,
}

impl Dynamic {
    pub(crate) const ALL: [Self; 6] = [
        Self::BlockCache,
        Self::PrefetchMax,
        Self::Ingress,
        Self::Egress,
        Self::WalCache,
        Self::UploadThreshold,
    ];

    const fn definition(self) -> Definition {
        let (key, fallback, documentation) = match self {
            Self::BlockCache => (
                keys::BLOCK_CACHE,
                None,
                "Memory for what is read from objects, in bytes. Readers that catch up share it.",
            ),
            Self::PrefetchMax => (
                keys::PREFETCH_MAX,
                None,
                "How far ahead one reader may be served from objects, in bytes; 0 turns it off.",
            ),
            Self::Ingress => (
                keys::INGRESS,
                Some(keys::BANDWIDTH),
                "Bytes per second that come in, from producers and the bucket; 0 is no bound.",
            ),
            Self::Egress => (
                keys::EGRESS,
                Some(keys::BANDWIDTH),
                "Bytes per second that go out, to consumers and the bucket; 0 is no bound.",
            ),
            Self::WalCache => (
                keys::LOG_CACHE,
                None,
                "Memory for records that are not in objects yet, or were not a moment ago, in bytes.",
            ),
            Self::UploadThreshold => (
                keys::UPLOAD_THRESHOLD,
                None,
                "So much is uploaded at once, in bytes; a quarter of s3.wal.cache.size is the most \
                 that takes effect.",
            ),
        };
        Definition {
            key,
            fallback,
            documentation,
        }
    }

    /// The property.
    pub(crate) const fn name(self) -> &'static str {
        self.definition().key
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.name() == name)
    }

    /// The property whose value holds where this one is not in the file.
    pub(crate) const fn fallback(self) -> Option<&'static str> {
        self.definition().fallback
    }

    /// What it does.
    pub(crate) const fn documentation(self) -> &'static str {
        self.definition().documentation
    }
}

/// A value for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Values([u64; Dynamic::ALL.len()]);

impl Values {
    pub(crate) fn new(of: impl Fn(Dynamic) -> u64) -> Self {
        Self(Dynamic::ALL.map(of))
    }

    /// What the file says, or the defaults.
    pub(crate) fn of_file(config: &StorageConfig) -> Self {
        let bytes = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        Self::new(|setting| match setting {
            Dynamic::BlockCache => bytes(config.block_cache_bytes),
            Dynamic::PrefetchMax => config.prefetch_max_bytes,
            Dynamic::Ingress => config.ingress_bytes_per_s.unwrap_or(0),
            Dynamic::Egress => config.egress_bytes_per_s.unwrap_or(0),
            Dynamic::WalCache => bytes(config.wal_cache_bytes),
            Dynamic::UploadThreshold => bytes(config.upload_threshold_bytes),
        })
    }

    /// The configuration with these values in the place of its own.
    pub(crate) fn lay_over(&self, config: &StorageConfig) -> StorageConfig {
        let bytes = |setting| usize::try_from(self.get(setting)).unwrap_or(usize::MAX);
        StorageConfig {
            block_cache_bytes: bytes(Dynamic::BlockCache),
            prefetch_max_bytes: self.get(Dynamic::PrefetchMax),
            ingress_bytes_per_s: self.rate(Dynamic::Ingress),
            egress_bytes_per_s: self.rate(Dynamic::Egress),
            wal_cache_bytes: bytes(Dynamic::WalCache),
            upload_threshold_bytes: bytes(Dynamic::UploadThreshold),
            ..config.clone()
        }
    }

    pub(crate) fn get(&self, setting: Dynamic) -> u64 {
        self.0[setting as usize]
    }

    /// A rate; 0 is no bound.
    pub(crate) fn rate(&self, setting: Dynamic) -> Option<u64> {
        Some(self.get(setting)).filter(|&bytes_per_s| bytes_per_s > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BrokerConfig, Properties};

    #[test]
    fn what_is_laid_over_a_configuration_is_what_it_then_says() {
        let config = BrokerConfig::new(&Properties::default()).expect("legal");
        let values = Values::new(|setting| 1 << (20 + setting as u32));
        let laid = values.lay_over(&config.storage);
        assert_eq!(Values::of_file(&laid), values);
        let unbounded = Values::new(|setting| match setting {
            Dynamic::Egress => 0,
            other => values.get(other),
        });
        let laid = unbounded.lay_over(&config.storage);
        assert_eq!(
            (laid.egress_bytes_per_s, Values::of_file(&laid)),
            (None, unbounded)
        );
    }

    #[test]
    fn each_is_found_by_its_name_and_explained() {
        for setting in Dynamic::ALL {
            assert_eq!(Dynamic::find(setting.name()), Some(setting));
            assert!(setting.documentation().ends_with('.'));
        }
        assert_eq!(Dynamic::find("num.partitions"), None);
    }
}
