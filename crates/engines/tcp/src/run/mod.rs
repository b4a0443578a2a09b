//! What commands compute: memories and streams followed through the engines, bit for bit.

pub mod vector;
