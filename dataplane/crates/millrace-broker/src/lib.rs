//! The composition root: configuration to parts to start, drain and stop; admin HTTP, metrics.
//!
//! | module | what it holds |
//! |---|---|
//! | `config` | properties to typed settings, with errors that name key and remedy |
//! | `folder` | the data folder and its lock |
//! | `machine` | what the machine has |
//! | `memory` | one bound for the whole broker, and which part has how much |
//! | `identity` | whose storage it is: what each part says, whether they agree |
//! | `backup` | the metadata's backup in the bucket |
//! | `recover` | metadata rebuilt from its backup |
//! | `cluster` | the broker among the other brokers of its cluster |
//! | `log_device` | the devices of write-ahead logs, this broker's and those that it takes over, and their fences |
//! | `storage` | metadata, bucket, write-ahead log, caches and streams, put together |
//! | `broker` | everything, put together; start and stop |
//! | `settings` | the settings while the broker runs, and their changes |
//! | `catch_up` | who reads how far behind, how fast, and how long it will take |
//! | `state` | what the broker knows about itself |
//! | `admin` | the admin HTTP |
//! | `control_link` | the connection to the control plane's gateway, on which the admin HTTP is served |
//! | `transaction_peers` | how transactions reach other brokers |
//! | `share_peers` | how the state of share partitions is reached at other brokers |
//! | `coordinators` | consumer groups, transactions and share partitions |
//! | `own_client` | how the broker's own client reaches the broker |
//! | `tls` | the certificates of listeners |
//! | `token_keys` | the keys that tokens of OAUTHBEARER are signed with |
//! | `telemetry` | the metrics recorder |

mod admin;
mod background_threads;
mod backup;
mod broker;
mod catch_up;
mod cluster;
pub mod config;
mod control_link;
mod coordinators;
mod folder;
pub mod identity;
mod log_device;
mod machine;
mod memory;
mod own_client;
pub mod recover;
mod settings;
mod share_peers;
mod state;
mod storage;
mod telemetry;
mod tls;
mod token_keys;
mod transaction_peers;

pub use broker::{Broker, BrokerFailure, StartError, StopReport};
pub use config::BrokerConfig;
pub use folder::FolderError;
pub use log_device::LogDevices;
pub use machine::{Machine, ThisMachine};
pub use millrace_properties::{InvalidProperties, PROPERTIES_BYTES_MAX, Properties};
pub use millrace_stream::Closed;
pub use millrace_tasks::{Supervisor, Task};
pub use storage::{Seams, StorageError};
pub use tls::CertificateError;
pub use token_keys::KeySetError;
