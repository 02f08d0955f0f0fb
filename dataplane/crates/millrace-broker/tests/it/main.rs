//! Integration tests of the broker, in one binary: each further one would be linked by itself.

mod admin_changes;
mod bearer_tokens;
mod bucket_outage;
mod catch_up;
mod client;
mod client_consumer;
mod client_faults;
mod client_metrics;
mod control_link;
mod control_plane;
mod data;
mod delegation_tokens;
mod failure;
mod groups_http;
mod identity;
mod log_compaction;
mod operation;
mod quotas;
mod records;
mod recover;
mod secure_listeners;
mod settings;
mod support;
mod tasks;
mod topics_http;
mod violations;
