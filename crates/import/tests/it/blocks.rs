//! Weights of GGUF files, evaluated at the graph level, against the formulas of their blocks.

use std::sync::Arc;

use proptest::prelude::*;
use tilewright_graph::{Builder, TensorStore};
use tilewright_import::gguf::blocks;
use tilewright_import::gguf::file::Gguf;
use tilewright_reference::Interpreter;

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A file with one matrix of two rows of 64.
fn file(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes =
        [&b"GGUF"[..], &3_u32.to_le_bytes(), &1_u64.to_le_bytes(), &0_u64.to_le_bytes(), &text("w")].concat();
    bytes.extend(2_u32.to_le_bytes());
    bytes.extend([64_u64.to_le_bytes(), 2_u64.to_le_bytes()].concat());
    bytes.extend(kind.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes.extend(body);
    bytes
}

/// A float16 that is finite and not subnormal.
fn half(bytes: &[u8]) -> f32 {
    let bits = u32::from(u16::from_le_bytes([bytes[0], bytes[1]]));
    let (sign, exponent, mantissa) = (bits >> 15, bits >> 10 & 31, bits & 1023);
    f32::from_bits(sign << 31 | (exponent + 112) << 23 | mantissa << 13)
}

/// The weights of one block, as ggml's description of the type says.
fn plain(kind: u32, block: &[u8]) -> Vec<f32> {
    let d = half(block);
    let nibble = |from: usize, at: usize| {
        f32::from(if at < 16 { block[from + at] & 15 } else { block[from + at - 16] >> 4 })
    };
    match kind {
        8 => (0..32).map(|at| d * f32::from(i8::from_le_bytes([block[2 + at]]))).collect(),
        2 => (0..32).map(|at| d * (nibble(2, at) - 8.0)).collect(),
        _ => (0..32).map(|at| d * nibble(4, at) + half(&block[2..])).collect(),
    }
}

proptest! {
    #[test]
    fn blocks_are_integers_with_scales(
        which in 0..3_usize,
        seed in proptest::collection::vec(any::<u8>(), 4 * 34),
    ) {
        let (kind, size) = [(8, 34), (2, 18), (3, 20)][which];
        let mut body = seed[..4 * size].to_vec();
        for block in body.chunks_mut(size) {
            // Scales between 2^-8 and 2^7.
            block[1] = block[1] & 0x83 | (8 + (block[1] >> 2 & 15)) << 2;
            block[3] = if kind == 3 { block[3] & 0x83 | (8 + (block[3] >> 2 & 15)) << 2 } else { block[3] };
        }
        let wanted: Vec<f32> = body.chunks(size).flat_map(|block| plain(kind, block)).collect();
        let bytes = Arc::new(file(kind, &body));
        let gguf = Gguf::read("f", &bytes).unwrap();
        let mut store = TensorStore::default();
        blocks::load(&gguf, "w", "w", &[2, 64], &mut store).unwrap();
        let mut b = Builder::new("weight");
        let w = blocks::weight(&mut b, &store, "w").unwrap();
        b.output("w", w);
        let seen = Interpreter::new(b.finish(), &store).unwrap().run(&[]).unwrap();
        prop_assert_eq!(&seen[0].dims, &[2, 64]);
        prop_assert_eq!(seen[0].as_floats(), &wanted[..]);
    }
}
