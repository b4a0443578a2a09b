//! The vector engine: which chains are legal, what they follow from, and their values against a plain
//! reference.

mod build;
mod chains;
mod random;
mod reference;
mod rules;
