//! Inputs of lowering other than the einsum.

use tilewright_tcp_isa::program::tensor::TensorData;

/// What the einsum does not say.
#[derive(Clone, Debug)]
pub struct LowerOptions {
    /// The machine, by name.
    pub machine: String,
    /// What in0 and in1 hold.
    pub data: [TensorData; 2],
    /// Zero points of in0 and in1, for i5 and i9.
    pub zero_points: [i64; 2],
    /// Whether in0 and in1 start in off-chip memory.
    pub from_hbm: [bool; 2],
}

impl Default for LowerOptions {
    fn default() -> LowerOptions {
        LowerOptions {
            machine: "tcp".to_string(),
            data: [TensorData::Random(1), TensorData::Random(2)],
            zero_points: [0, 0],
            from_hbm: [false; 2],
        }
    }
}
