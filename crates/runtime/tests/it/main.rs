//! All integration tests of this crate in one binary, which is linked once.

mod batches;
mod contractions;
mod device;
mod edited_programs;
mod faults;
mod golden;
mod integers;
mod kernels;
mod lowered_findings;
mod models;
mod norms;
mod odd_planes;
mod odd_sizes;
mod random;
mod reference;
mod register_races;
mod session;
mod stories;
mod threads;
