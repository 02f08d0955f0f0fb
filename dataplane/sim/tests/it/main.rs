//! Seeded simulations of clusters.

mod planted;
mod seeds;
