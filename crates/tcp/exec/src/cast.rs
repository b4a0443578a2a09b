//! Cast engine: the 8 words of each flit become a narrow type at its front (vISA book, cast engine; rules of
//! `tilewright_num`).

use tilewright_num::{Dtype, RuleSet, convert};
use tilewright_tcp_isa::memory::payload_bits;

use super::fault::ExecProblem;
use super::packets::{Packets, load_bits, store_bits};
use crate::limits::index;

/// Casts flits of i32 or, for a float type, f32.
pub(super) fn cast(rules: &RuleSet, flits: &Packets, to: Dtype) -> Result<Packets, ExecProblem> {
    let from = match to {
        Dtype::I4 | Dtype::I8 | Dtype::I16 => Dtype::I32,
        Dtype::F8E4M3Fn | Dtype::F8E5M2 | Dtype::Bf16 => Dtype::F32,
        _ => return Err(ExecProblem::Dtype(to)),
    };
    let mut bytes = vec![0; flits.bytes.len()];
    let (flit_bytes, bits) = (flits.packet_bytes.max(1), payload_bits(to));
    for (source, target) in flits.bytes.chunks(flit_bytes).zip(bytes.chunks_mut(flit_bytes)) {
        for word in 0..source.len() / index(u64::from(Dtype::I32.bits() / 8)) {
            store_bits(target, bits, word, convert(rules, from, to, load_bits(source, 32, word))?);
        }
    }
    Ok(Packets { bytes, extra: None, packet_bytes: flits.packet_bytes })
}
