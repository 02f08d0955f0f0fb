//! Integration tests, one binary so that it links once.

mod api;
mod mover;
