//! Who a client is, and what it may do.
//!
//! | part | what it is |
//! |---|---|
//! | `address` | which addresses count as one client |
//! | `principal` | the name that rules speak of: `User:alice` |
//! | `acl` | access control lists with Kafka's semantics, decided from an index in memory |
//! | `certificate` | the principal of a client that shows a certificate |
//! | `sasl` | the server's side of PLAIN and SCRAM, and a connection's session (KIP-368) |
//! | `credentials` | what the server keeps of passwords |
//! | `delegation` | delegation tokens (KIP-48) |
//! | `quota` | who may use how much: client quotas and the precedence of their entities |
//!
//! Nothing here does I/O. Where rules and credentials are stored, and how tokens travel, is the
//! business of the crates above.

pub mod acl;
mod address;
pub mod certificate;
pub mod credentials;
pub mod delegation;
mod principal;
pub mod quota;
pub mod sasl;

pub use address::address_block;
pub use principal::{
    ANONYMOUS_USER, CONTROL_PLANE_USER, InvalidPrincipal, PRINCIPAL_BYTES_MAX, Principal,
    RECORDS_USER, RESERVED_PREFIX,
};
