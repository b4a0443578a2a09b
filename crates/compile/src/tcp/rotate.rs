//! Queries, keys and values from projected rows: rotation by position, and rounding.
//!
//! As in `tilewright_tcp_lower::kernels::rope`: interleaved fetch brings both halves of a head for each half
//! of the result, the walk of the register file starts at cosines, steps forward to the second group and
//! backward to the second half.

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::exec::{Fetch, Loop, Memory};
use tilewright_tcp_isa::program::vector::{OpKind, OperandSource, Word};
use tilewright_tcp_lower::kernels::chain::{float, to_i8};
use tilewright_tcp_lower::kernels::pass::signed;

use super::build::{Build, Mode};
use super::image::{
    bytes, chain, commit, copy, fetch, fetch_pairs, fetch_words, indexed, main, n, sub, through, to_slices,
    transfer, turn, with,
};
use super::{cache, teams};
use crate::CompileError;
use crate::kernel::{Heads, Kernel};

/// Sines, cosines and minus sines for the position of every row, gathered once a run.
pub(super) fn angles(build: &mut Build<'_>) {
    let (plan, slices) = (build.plan, build.machine.pe.slices);
    let row = plan.angles_row;
    let entry = bytes(Dtype::U32, slices);
    for index in 0..build.most_rows() {
        let to = build.dm(0, build.at.angles + index * row);
        let loops = match build.mode {
            Mode::Prefill | Mode::Batch => vec![to_slices(slices, row)],
            Mode::Decode => vec![turn(n(1), row, row), to_slices(slices, 0)],
        };
        let gather = transfer("angles", build.hbm(plan.angles), to, loops, row);
        build.emit.dma(indexed(gather, build.hbm(plan.angle_table + index * entry), false));
    }
}

/// Where heads come from and go to.
struct Part {
    name: &'static str,
    heads: u64,
    from: u64,
    to: u64,
    /// Bytes between rows of the result.
    row: u64,
    /// What an integer is worth.
    unit: f32,
}

/// Queries, and new rows of a cache.
pub(super) fn rotate(
    build: &mut Build<'_>,
    heads: &Heads,
    turns: bool,
    index: usize,
) -> Result<(), CompileError> {
    let dtype = build.cache();
    let (first, width) = columns(build, heads)?;
    let units = build.plan.units(index);
    let from = |part: usize| build.at.rows + bytes(build.between(), first[part]);
    let (queries, fresh) = (build.at.queries, build.at.fresh);
    let query_row = bytes(dtype, heads.query_width());
    let row = build.plan.cache_row;
    let queries = Part {
        name: "queries",
        heads: heads.kv * heads.slots,
        from: from(0),
        to: queries,
        row: query_row,
        unit: units[0],
    };
    let keys = Part { name: "keys", heads: heads.kv, from: from(1), to: fresh, row, unit: units[1] };
    let to = fresh + bytes(dtype, heads.kv_width());
    let values = Part { name: "values", heads: heads.kv, from: from(2), to, row, unit: units[2] };
    if turns {
        load_angles(build, heads.depth / 2);
    }
    let turned = |build: &mut Build<'_>, part: &Part| {
        if turns {
            turn_heads(build, part, heads.depth, width);
        } else {
            round(build, part, part.heads * heads.depth, width);
        }
    };
    turned(build, &keys);
    if build.mode == Mode::Prefill {
        // Keys come back, and queries are dealt out, while the rest is made. What waits for a transfer is
        // issued as late as can be: it holds what is behind it.
        let teams = teams::of(build, heads);
        cache::store_keys(build, index);
        turned(build, &queries);
        cache::fetch_keys(build, index, teams);
        teams::deal_queries(build, heads, teams);
        round(build, &values, heads.kv_width(), width);
        cache::turn_ragged_keys(build, index, teams);
    } else {
        round(build, &values, heads.kv_width(), width);
        // New rows go to the cache meanwhile.
        cache::store(build, index);
        turned(build, &queries);
    }
    Ok(())
}

/// First columns of queries, keys and values, and the width of all.
fn columns(build: &Build<'_>, heads: &Heads) -> Result<(Vec<u64>, u64), CompileError> {
    let matching = build.kernels.kernels.iter().find_map(|kernel| match kernel {
        Kernel::Project { parts, .. } if parts.len() == 3 => Some(build.plan.parts(build.machine, parts)),
        _ => None,
    });
    let half = heads.depth / 2;
    let short = half == 4 && build.cache() != Dtype::I8;
    if !half.is_multiple_of(8) && !short {
        let allowed = "a multiple of 16 (8 for bf16 caches)".to_string();
        return Err(CompileError::Size { what: "the width of a head", found: heads.depth, allowed });
    }
    let refused = CompileError::Size {
        what: "parts of a projection before attention",
        found: 0,
        allowed: "queries, keys and values".to_string(),
    };
    let parts = matching.ok_or(refused)?;
    Ok((parts.first, parts.width))
}

fn load_angles(build: &mut Build<'_>, half: u64) {
    let words = 3 * half;
    let loops = [(build.registers.rows, words), (n(words / 2), 2), (n(2), 1)];
    let from = fetch(Dtype::F32, build.at.angles, &loops, 2);
    let to = [(build.registers.rows, bytes(Dtype::F32, words)), (n(words / 2), 8)];
    let to = commit(Memory::Vrf, 0, &to, 8);
    build.emit.exec(sub(build.machine, "load_angles", copy(from, to)));
}

fn turn_heads(build: &mut Build<'_>, part: &Part, depth: u64, width: u64) {
    let dtype = build.cache();
    let half = depth / 2;
    let words = half.min(8);
    let flits = half / words;
    let loops = [
        (build.registers.rows, width),
        (n(part.heads), depth),
        (n(2), 0),
        (n(flits), words),
        (n(2), 0),
        (n(words), 1),
    ];
    let second = part.from + bytes(build.between(), half);
    let from = fetch_pairs(build.between(), part.from, second, &loops);
    let from = Fetch { packet: words, ..from };
    let step = signed(half);
    let walk = [
        (build.registers.rows, 3 * step),
        (n(part.heads), 0),
        (n(2), -step),
        (n(flits), signed(words)),
        (n(2), step),
        // Padding of a flit is multiplied by what its elements are.
        (n(8 / words), 0),
        (n(words), 1),
    ];
    let walk = walk.iter().filter(|(size, _)| *size != n(1));
    let loops: Vec<Loop> = walk.map(|(size, stride)| Loop { size: *size, stride: *stride }).collect();
    let angles = OperandSource::Vrf { base: bytes(Dtype::F32, half), loops };
    let mut ops = vec![with(OpKind::Mul0, angles), with(OpKind::FAdd, OperandSource::Pair)];
    if dtype == Dtype::I8 {
        ops.push(with(OpKind::Mul1, float(1.0 / part.unit)));
        ops.extend(to_i8());
    }
    let piece = bytes(dtype, words);
    let to = [
        (build.registers.rows, part.row),
        (n(part.heads), bytes(dtype, depth)),
        (n(2), bytes(dtype, half)),
        (n(flits), piece),
    ];
    let to = commit(Memory::Dm, part.to, &to, piece);
    build.emit.exec(main(part.name, through(from, chain(Word::F32, ops).paired(), Some(dtype), to)));
}

/// Columns of rows, rounded.
fn round(build: &mut Build<'_>, part: &Part, columns: u64, width: u64) {
    let dtype = build.cache();
    let piece = bytes(dtype, 8);
    let loops = [(build.registers.rows, width), (n(columns), 1)];
    let mut to =
        commit(Memory::Dm, part.to, &[(build.registers.rows, part.row), (n(columns / 8), piece)], piece);
    let stream = if dtype == Dtype::I8 {
        let mut ops = vec![with(OpKind::Mul0, float(1.0 / part.unit))];
        ops.extend(to_i8());
        through(fetch_words(build.between(), part.from, &loops), chain(Word::F32, ops), Some(dtype), to)
    } else if build.between() == Dtype::Bf16 {
        copy(fetch(Dtype::Bf16, part.from, &loops, 8), to)
    } else {
        to.to_bf16 = true;
        copy(fetch(Dtype::F32, part.from, &loops, 8), to)
    };
    build.emit.exec(main(part.name, stream));
}
