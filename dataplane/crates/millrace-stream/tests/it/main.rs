//! Integration tests of the streams, in one binary: each further one would be linked by itself.

mod compaction;
mod crashes;
mod halt;
mod pace;
mod real_device;
mod resize;
mod rewrite;
mod store;
mod takeover;
mod uploads;
mod world;
