//! Integration tests of the block cache, in one binary: each further one would be linked by itself.

mod catch_up;
mod fake_meta;
mod fresh_metadata;
mod pressure;
mod read;
mod storage;
