//! Faulty object store, simulated disks, record builders, a Kafka client, a PostgreSQL server. For tests only.

mod fake_ebs;
mod faulty_bucket;
mod kafka_client;
mod postgres_server;
mod property;
mod reserved_disk;
mod sim_disk;
mod token_issuer;

pub use fake_ebs::{EbsPace, FakeEbs, FakeInstance};
pub use faulty_bucket::{BucketCounts, BucketFaults, FaultyBucket};
pub use kafka_client::{Fetched, KafkaClient, PRODUCE_VERSION, produce_request};
pub use postgres_server::{DatabaseStatistics, PostgresServer};
pub use property::{property_cases, two_threads};
pub use reserved_disk::{ReservedDisk, ReservingHost};
pub use sim_disk::{Crash, SimDisk};
pub use token_issuer::TokenIssuer;
