//! Client quotas with Kafka's semantics (KIP-13, 124, 257, 546, 599, 612).
//!
//! | part | what it is |
//! |---|---|
//! | `entity` | what a quota applies to (users, client ids, both, IP addresses, and the defaults), and kinds of quotas |
//! | `table` | the quotas that are set, and which of them holds for a client |
//! | `filter` | which entities a description asks for |
//! | `measure` | rates over sampled windows, and token buckets |
//! | `meters` | the use of many clients, each measured by itself |

mod entity;
mod filter;
mod measure;
mod meters;
mod table;
#[cfg(test)]
mod tests;

pub use entity::{
    ENTITY_NAME_BYTES_MAX, EntityPart, InvalidQuota, Name, QuotaEntity, QuotaKind, entity_name,
};
pub use filter::{FilterPart, InvalidFilter, QuotaFilter};
pub use measure::{Measure, Rate, TokenBucket, Windows};
pub use meters::{METERS_MAX, METERS_OF_ONE_MAX, Meters};
pub use table::{Limit, LiveQuotas, MeterKey, QUOTA_ENTITIES_MAX, QuotaTable, TooManyEntities};
