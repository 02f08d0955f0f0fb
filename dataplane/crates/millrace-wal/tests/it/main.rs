//! Integration tests of the write-ahead log, in one binary: each further one would be linked by itself.

mod conformance;
mod fence;
mod kill;
mod log;
mod recovery;
