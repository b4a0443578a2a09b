//! How long single instructions take, by engine, from the chip's figures and how their operands lie.

pub mod collective;
pub mod dma;
pub mod gpsimd;
pub mod register;
pub mod scalar;
pub mod tensor;
pub mod vector;
