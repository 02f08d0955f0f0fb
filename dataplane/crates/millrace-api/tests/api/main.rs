//! Every API over a real storage engine, spoken to in frames.

mod acls;
mod audit;
mod authorization;
mod calls;
mod client_quotas;
mod cold;
mod committed_reads;
mod configs;
mod delegation_tokens;
mod descriptions;
mod fetch;
mod fetch_sessions;
mod groups;
mod metrics;
mod overload;
mod produce;
mod quota;
mod records;
mod reload;
mod scram;
mod settings;
mod sign_in;
mod topics;
mod transactions;
mod versions;
mod world;
