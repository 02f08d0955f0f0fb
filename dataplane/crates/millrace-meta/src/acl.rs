//! Access control lists, as they are stored.

/// One rule. The numbers are those that the row's owner gives its kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclRow {
    /// The type of resource.
    pub resource_type: i8,
    /// The resource's name, or the beginning of it.
    pub resource_name: String,
    /// How the name is compared.
    pub pattern_type: i8,
    /// To whom the rule applies.
    pub principal: String,
    /// From which address.
    pub host: String,
    /// The operation.
    pub operation: i8,
    /// Whether it is allowed or denied.
    pub permission: i8,
}
