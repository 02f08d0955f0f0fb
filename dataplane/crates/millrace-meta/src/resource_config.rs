//! Configurations of groups and of subscriptions to client metrics.

/// One configuration that is set for a resource. Which names and values there are is for the caller to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceConfigRow {
    /// Kafka's number for the type of the resource: 16 client metrics, 32 group.
    pub resource_type: i8,
    /// The resource's name; never empty.
    pub resource_name: String,
    /// The configuration.
    pub name: String,
    /// What it is set to.
    pub value: String,
}

/// A change of one configuration of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceConfigChange {
    /// Sets it.
    Put(ResourceConfigRow),
    /// Removes it, if it is set.
    Remove {
        /// As in [`ResourceConfigRow::resource_type`].
        resource_type: i8,
        /// The resource's name.
        resource_name: String,
        /// The configuration.
        name: String,
    },
}
