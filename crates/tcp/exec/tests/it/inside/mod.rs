//! Parts of the crate that are looked at alone.

mod copy;
mod dot;
mod overlay;
mod pages;
mod single_row;
