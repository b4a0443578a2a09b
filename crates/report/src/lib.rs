//! Pictures of what programs mean, for terminals and as SVG files that open anywhere.
//!
//! - [`shape`]: which coordinates each slice holds (after Fig. 1 of the TCP paper);
//! - [`tactic`]: which loop runs where: slices, time, lanes, packet;
//! - [`einsum`]: both of a low-level einsum, below each other;
//! - [`chart`]: points and bars on axes with ticks and units;
//! - [`lanes`]: what units do over time;
//! - [`svg`], [`columns`]: the two media.

pub mod chart;
pub mod columns;
pub mod einsum;
pub mod lanes;
pub mod shape;
pub mod svg;
pub mod tactic;
