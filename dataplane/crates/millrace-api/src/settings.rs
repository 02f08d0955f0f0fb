//! The broker's settings as clients see and change them: the interface of the component that keeps them.

use std::{collections::BTreeMap, fmt};

use millrace_model::Cause;
use millrace_wire::service::BoxFuture;

/// One setting of the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerSetting {
    /// The property.
    pub name: String,
    /// The value that is in force; none where it is a secret.
    pub value: Option<String>,
    /// What kind of value it is.
    pub kind: SettingKind,
    /// Whether it can be changed while the broker runs.
    pub is_dynamic: bool,
    /// What it does, in a sentence; empty where its name says it all.
    pub documentation: String,
    /// Every place that gives it a value, the one that is in force first; never empty.
    pub layers: Vec<SettingLayer>,
}

/// One place that gives a setting a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingLayer {
    /// Which place.
    pub source: SettingSource,
    /// The property there: a setting may fall back to another one's value.
    pub name: String,
    /// The value; none where it is a secret.
    pub value: Option<String>,
}

/// Where a broker's setting has its value from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingSource {
    /// Set at run time, for this broker.
    DynamicBroker,
    /// Set at run time, for all brokers.
    DynamicDefault,
    /// The broker's file or command line.
    StaticBroker,
    /// Nobody set it.
    Default,
}

/// What kind of value a setting has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    /// `true` or `false`.
    Boolean,
    /// Any text.
    String,
    /// A whole number of 32 bits.
    Int,
    /// A whole number of 64 bits.
    Long,
    /// A decimal number.
    Double,
    /// Texts, separated by commas.
    List,
}

/// Whom a change at run time is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingScope {
    /// This broker alone.
    Broker,
    /// All brokers; what a broker has of its own holds over it.
    Cluster,
}

/// What is to become of the settings of one scope. Takes effect whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingsChange {
    /// Only these change: to a value, or, where there is none, back to what holds without the
    /// scope.
    Some(BTreeMap<String, Option<String>>),
    /// The scope sets these and nothing else.
    All(BTreeMap<String, String>),
}

/// A change that was not made. The texts are for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlterSettingsError {
    /// The settings would not be legal: says which, which bound, why, and what to write instead.
    #[error("{0}")]
    Invalid(String),
    /// Another start of this broker has taken over.
    #[error("this broker has been replaced by a newer start of itself; ask that one")]
    Fenced,
    /// The change could not be made durable, and is not in force. The class of the cause says whether
    /// to retry.
    #[error("the change could not be stored: {0}")]
    NotStored(Cause),
}

/// Who keeps the broker's settings.
pub trait BrokerSettings: fmt::Debug + Send + Sync + 'static {
    /// Every setting, by name.
    fn settings(&self) -> Vec<BrokerSetting>;

    /// Checks a change and, unless it is only to be validated, makes it: it is durable and in force
    /// when this returns.
    ///
    /// # Errors
    /// See [`AlterSettingsError`].
    fn alter(
        &self,
        scope: SettingScope,
        change: SettingsChange,
        validate_only: bool,
    ) -> BoxFuture<'_, Result<(), AlterSettingsError>>;
}

impl BrokerSetting {
    /// Where the value in force comes from.
    #[must_use]
    pub fn source(&self) -> SettingSource {
        self.layers
            .first()
            .map_or(SettingSource::Default, |layer| layer.source)
    }
}

impl SettingSource {
    /// Kafka's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DynamicBroker => "DYNAMIC_BROKER_CONFIG",
            Self::DynamicDefault => "DYNAMIC_DEFAULT_BROKER_CONFIG",
            Self::StaticBroker => "STATIC_BROKER_CONFIG",
            Self::Default => "DEFAULT_CONFIG",
        }
    }
}
