//! Cast engine: from 32-bit words to narrower types (vISA book, cast engine).

use tilewright_num::Dtype;

use super::context::VerifyContext;
use super::types;
use crate::program::exec::Stream;

const CASTS: [(Dtype, Dtype); 6] = [
    (Dtype::I32, Dtype::I4),
    (Dtype::I32, Dtype::I8),
    (Dtype::I32, Dtype::I16),
    (Dtype::F32, Dtype::F8E4M3Fn),
    (Dtype::F32, Dtype::F8E5M2),
    (Dtype::F32, Dtype::Bf16),
];

pub(super) fn check(cx: &mut VerifyContext<'_>, stream: &Stream) {
    let Some(to) = stream.cast else { return };
    let from = types::leaves_vector(stream);
    if !CASTS.contains(&(from, to)) {
        cx.refuse(
            "tcp/cast-types",
            format!("a cast from {from} to {to}"),
            "i32 to i4, i8, i16; f32 to f8e4m3, f8e5m2, bf16".into(),
            "a conversion in the vector engine before it".into(),
        );
    }
}
