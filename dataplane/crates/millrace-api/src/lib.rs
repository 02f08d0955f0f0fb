//! Kafka's APIs, one file per API key: request to response. Never imports net.
//!
//! [`ApiService`] takes a frame, finds its handler in the `registry`, and measures it. A handler's
//! stage 1 runs while the connection waits: it decodes, checks, and fixes the request's place in
//! the order of things (offsets are assigned, commits enter the group's log). Whatever takes time —
//! durability, other members of a group, data that is not there yet, objects — happens in stage 2,
//! a future that runs beside the connection's next requests.
//!
//! | part | what it is |
//! |---|---|
//! | `service` | frames in, responses out, measured |
//! | `own_requests` | requests of the control plane that come over the admin HTTP |
//! | `registry` | which handler serves which API |
//! | `handlers` | one file per API key |
//! | `fetch_sessions` | what clients have said that they fetch, and were told |
//! | `features` | the feature levels that clients are told |
//! | `context` | what handlers work with |
//! | `code` | the one place where failures become Kafka's error codes |
//! | `catalogue` | the configurations that clients expect a topic to have |
//! | `config_changes` | what the two requests that change configurations have in common |
//! | `config_resource` | what configurations belong to |
//! | `quota` | how much clients may use, and how long they wait who used more |
//! | `quota_changes` | changes of client quotas, stored before they count |
//! | `resource_configs` | configurations of groups and of client metrics, stored before they count |
//! | `client_metrics` | metrics that clients push |
//! | `sign_in` | who a connection is, and what it may send before that is known |
//! | `authorization` | what a client may do, and the audit log |
//! | `acl_changes` | changes of ACLs, stored before they count |
//! | `scram_changes` | changes of users' credentials, stored before they count |
//! | `delegation_tokens` | changes of delegation tokens, stored before they count |
//! | `security_changes` | makes those changes, one after the other, each to its end |
//! | `settings` | the broker's settings as clients see and change them |
//! | `share_partitions` | share partitions that this broker leads, and share sessions |
//! | `cold_reads` | reads of what has left memory, beside the fetches that want it |
//! | `inspection` | looking at the records of large batches elsewhere |
//! | `topics` | finding and checking topics by name or id |
//! | `topic_changes` | topics change one after the other, each to the end |
//! | `share_states` | the state of share partitions, at the share coordinator here or at another broker |
//! | `transactions` | partitions take part in transactions and learn of their ends |
//! | `wakeups` | new data wakes waiting fetches |
//! | `work` | a request that is worked on: how long that takes, and who pays for it |
//! | `zones` | which consumers are served by brokers of their zone |

mod acl_changes;
mod authorization;
mod call;
mod catalogue;
mod client_metrics;
mod code;
mod cold_reads;
mod config_changes;
mod config_resource;
mod context;
mod delegation_tokens;
mod features;
mod fetch_sessions;
mod group_descriptions;
mod handlers;
mod inspection;
mod members;
mod metrics;
mod own_requests;
mod placement;
mod planned_moves;
mod producer_ids;
mod quota;
mod quota_changes;
mod registry;
mod resource_configs;
mod scram_changes;
mod security_changes;
mod service;
pub mod settings;
mod share_partitions;
mod share_states;
mod sign_in;
mod topic_changes;
mod topics;
mod transactions;
mod wakeups;
mod work;
mod zones;

pub use authorization::authorizer;
pub use client_metrics::{
    CLIENT_METRICS_SHOWN_MAX, ClientMetric, ClientMetricValue, ClientMetricsFilter, MeasuredClient,
    MeasuredClients, TELEMETRY_BYTES_MAX,
};
pub use cold_reads::COLD_READ_BYTES_MAX;
pub use context::{AdvertisedEndpoint, ApiConfig, ApiParts, FETCH_BYTES_MAX};
pub use delegation_tokens::delegation_tokens;
pub use fetch_sessions::FETCH_SESSIONS_BYTES_MAX;
pub use inspection::INSPECTION_BYTES_MAX;
pub use members::Members;
pub use millrace_share::{GroupSettings, ResetStrategy, ShareConfig};
pub use own_requests::OwnRequestError;
pub use producer_ids::ProducerIds;
pub use quota::{QUOTA_USES_MAX, QuotaConfig, QuotaUse, QuotaUses};
pub use quota_changes::client_quotas;
pub use resource_configs::{StoredConfigs, resource_configs};
pub use scram_changes::scram_users;
pub use service::ApiService;
pub use share_partitions::SHARE_PARTITIONS_BYTES_MAX;
pub use share_states::{NoSharePeers, SharePeers, ShareRequest, ShareStateRouter};
pub use sign_in::{SaslListener, Security};
pub use transactions::{
    Markers, NoPeers, PartitionResults, TransactionPeers, TransactionProducer, all_refused,
};
pub use zones::ReplicaSelector;
