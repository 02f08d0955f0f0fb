//! Integration tests of the metadata store, in one binary: each further one would be linked by itself.

mod backup;
mod cluster;
mod compaction;
mod conformance;
mod histories;
mod postgres;
mod sqlite;
