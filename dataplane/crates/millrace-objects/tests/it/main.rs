//! Integration tests of the objects, in one binary: each further one would be linked by itself.

mod assembly;
mod chain;
mod conformance;
mod format;
mod storage;
mod writes;
