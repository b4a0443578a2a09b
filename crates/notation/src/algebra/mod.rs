//! The algebra: a lowered shape is a mixed-radix map between a coordinate and (slice, offset).
//!
//! [`RadixMap`] is the one object. A lowered shape, its inverse, the bridge between two shapes and the loops
//! that a sequencer runs are all such maps, made from one another by inverting and composing:
//!
//! | question | map |
//! |---|---|
//! | where is this element? | [`RadixMap::of_shape`] |
//! | what is at this place? | its [`RadixMap::inverse`] |
//! | how do I get from shape A to shape B? | `A.inverse().then(B)`: [`bridge`] |
//! | which addresses does this loop nest touch? | loops refined against the shape: [`access`] |

pub mod access;
pub mod bridge;
pub mod map;
pub mod place;
pub mod refine;
pub mod unrolled;

pub use map::{Copies, MapDigit, RadixMap};
pub use place::{ElementPlace, PlaceMap};
