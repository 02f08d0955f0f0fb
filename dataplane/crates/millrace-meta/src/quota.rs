//! Client quotas.

/// One limit of an entity. Which entities and keys there are is for the caller to know.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaRow {
    /// Whom it limits.
    pub entity: QuotaEntityRow,
    /// What it limits.
    pub key: String,
    /// How much, in the key's unit; more than zero.
    pub value: f64,
}

/// Whom a quota limits. A part that is missing does not count; an empty part is the default for all
/// who have no quota by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuotaEntityRow {
    /// The name of a user.
    pub user: Option<String>,
    /// A client id.
    pub client_id: Option<String>,
    /// An IP address.
    pub ip: Option<String>,
}

/// A change of one quota.
#[derive(Debug, Clone, PartialEq)]
pub enum QuotaChange {
    /// Sets it.
    Put(QuotaRow),
    /// Removes it, if it exists.
    Remove {
        /// Whom it limits.
        entity: QuotaEntityRow,
        /// What it limits.
        key: String,
    },
}
