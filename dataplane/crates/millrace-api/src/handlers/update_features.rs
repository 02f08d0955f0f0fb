//! UpdateFeatures (KIP-584, KIP-778): levels come with the broker's version, so an update succeeds only where it
//! changes nothing. As in Kafka, one feature that is refused fails the whole request.

use std::sync::Arc;

use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        UpdateFeaturesRequest, UpdateFeaturesResponse, update_features_request::FeatureUpdateKey,
        update_features_response::UpdatableFeatureResult,
    },
};

use crate::{
    call::{Call, Outcome},
    context::{Context, text},
    features::{Feature, feature},
    topics::Refused,
};

/// The first version that says what kind of change is wanted; before, whether a downgrade is.
const FIRST_WITH_UPGRADE_TYPE: i16 = 1;
/// The last version whose answer has a line per feature.
const LAST_WITH_RESULTS: i16 = 1;

/// What kind of change is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UpgradeType {
    Upgrade,
    /// To a lower level, safe or unsafe.
    Downgrade,
}

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: UpdateFeaturesRequest = decode(&call.request)?;
    if let Err(code) = context.rights(&call).cluster(Operation::Alter) {
        let response = UpdateFeaturesResponse::default()
            .with_error_code(code.code())
            .with_error_message(Some(text("Cluster authorization failed.")));
        return call.reply().now(&response, code.code());
    }
    let version = call.version();
    let mut updates = request.feature_updates.iter();
    let refused = updates.find_map(|update| check(version, update).err());
    if let Some(refused) = refused {
        let (code, message) = Refused::parts::<()>(&Err(refused));
        let response = UpdateFeaturesResponse::default()
            .with_error_code(code)
            .with_error_message(message);
        return call.reply().now(&response, code);
    }
    let unchanged = |update: FeatureUpdateKey| {
        UpdatableFeatureResult::default()
            .with_feature(update.feature)
            .with_error_code(NONE)
    };
    let results = match version {
        ..=LAST_WITH_RESULTS => request.feature_updates.into_iter().map(unchanged).collect(),
        _ => Vec::new(),
    };
    call.reply().now(
        &UpdateFeaturesResponse::default().with_results(results),
        NONE,
    )
}

/// Whether an update leaves the level as it is. What `validate_only` asks has the same answer.
fn check(version: i16, update: &FeatureUpdateKey) -> Result<(), Refused> {
    let level = update.max_version_level;
    let name = update.feature.as_str();
    let refuse = |code, reason: &str| {
        let message = format!("Feature {name} cannot be set to level {level}: {reason}");
        Err(Refused::new(code, message))
    };
    let invalid = |reason: &str| refuse(ErrorCode::InvalidUpdateVersion, reason);
    let Some(upgrade_type) = upgrade_type(version, update) else {
        return invalid("the upgrade type is unknown.");
    };
    if level < 0 {
        return invalid("a level is at least 0.");
    }
    let Some(Feature {
        min,
        max,
        finalized,
        ..
    }) = feature(name)
    else {
        return invalid("the broker does not support this feature.");
    };
    if !(min..=max).contains(&&level) {
        return invalid(&format!("the broker supports levels {min} to {max}."));
    }
    match (level.cmp(finalized), upgrade_type) {
        (std::cmp::Ordering::Equal, _) => Ok(()),
        (std::cmp::Ordering::Less, UpgradeType::Upgrade) => {
            invalid("it is lower than the present level, and no downgrade was asked for.")
        }
        (std::cmp::Ordering::Greater, UpgradeType::Downgrade) => {
            invalid("it is higher than the present level, and a downgrade was asked for.")
        }
        _ => refuse(
            ErrorCode::FeatureUpdateFailed,
            &format!("the broker's version determines the level, which is {finalized}."),
        ),
    }
}

fn upgrade_type(version: i16, update: &FeatureUpdateKey) -> Option<UpgradeType> {
    if version < FIRST_WITH_UPGRADE_TYPE {
        return Some(match update.allow_downgrade {
            true => UpgradeType::Downgrade,
            false => UpgradeType::Upgrade,
        });
    }
    match update.upgrade_type {
        1 => Some(UpgradeType::Upgrade),
        2 | 3 => Some(UpgradeType::Downgrade),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(name: &str, level: i16, upgrade_type: i8) -> FeatureUpdateKey {
        FeatureUpdateKey::default()
            .with_feature(text(name))
            .with_max_version_level(level)
            .with_upgrade_type(upgrade_type)
    }

    #[test]
    fn levels_stay_as_they_are() {
        let code = |name, level, kind| {
            let checked = check(2, &update(name, level, kind));
            checked.map_err(|refused| refused.code)
        };
        let invalid = Err(ErrorCode::InvalidUpdateVersion);
        let failed = Err(ErrorCode::FeatureUpdateFailed);
        for kind in [1, 2, 3] {
            assert_eq!(code("metadata.version", 29, kind), Ok(()));
            assert_eq!(code("metadata.version", 30, kind), invalid);
            assert_eq!(code("metadata.version", -1, kind), invalid);
            assert_eq!(code("none", 0, kind), invalid);
        }
        assert_eq!(code("metadata.version", 29, 0), invalid);
        assert_eq!(code("metadata.version", 28, 1), invalid);
        assert_eq!(code("metadata.version", 28, 2), failed);
        assert_eq!(code("metadata.version", 28, 3), failed);
    }

    #[test]
    fn version_0_says_whether_it_allows_a_downgrade() {
        let lower = update("metadata.version", 28, 1);
        let code = |update: &FeatureUpdateKey| check(0, update).map_err(|refused| refused.code);
        assert_eq!(code(&lower), Err(ErrorCode::InvalidUpdateVersion));
        let allowed = lower.with_allow_downgrade(true);
        assert_eq!(code(&allowed), Err(ErrorCode::FeatureUpdateFailed));
    }
}
