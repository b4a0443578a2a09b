//! The register images that a lowering is made of, from loops with numbers.

use tilewright_base::Span;
use tilewright_notation::problem::{Digit, Problem};
use tilewright_num::Dtype;
use tilewright_tcp_cost::setup::Setup;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::{
    Commit, Context, Exec, ExecBody, Fetch, Limit, Memory, Stream, Switch,
};

use super::dynamic::DynamicAxes;
use super::limits::{MaskedFetch, limits};
use super::loops::{SequencerLoop, entries, masked_entries};

pub(super) fn fetch(
    setup: &Setup<'_>,
    problem: &Problem,
    dynamic: &DynamicAxes,
    parallel: &[Digit],
    fetched: &MaskedFetch<'_>,
) -> Fetch {
    let mut masks: Vec<Limit> = limits(problem, dynamic, fetched, parallel);
    let loops: Vec<SequencerLoop> = fetched
        .rows
        .iter()
        .map(|row| SequencerLoop { size: row.size, by: row.by, stride: row.stride })
        .collect();
    let loops = masked_entries(setup.machine, &loops, &mut masks);
    Fetch {
        dtype: fetched.dtype,
        base: fetched.view.base,
        interleave: None,
        loops,
        packet: fetched.packet,
        indirect: None,
        limits: masks,
        lookup: None,
        cast: None,
        zero_point: fetched.zero_point,
    }
}

/// A plain fetch of contiguous elements.
pub(super) fn fetch_linear(setup: &Setup<'_>, dtype: Dtype, base: u64, elements: u64, packet: u64) -> Fetch {
    fetch_loops(setup, dtype, base, &[SequencerLoop::of(elements, 1)], packet)
}

/// A fetch of loops without masks, strides in elements.
pub(super) fn fetch_loops(
    setup: &Setup<'_>,
    dtype: Dtype,
    base: u64,
    loops: &[SequencerLoop],
    packet: u64,
) -> Fetch {
    Fetch {
        dtype,
        base,
        interleave: None,
        loops: entries(setup.machine, loops),
        packet,
        indirect: None,
        limits: Vec::new(),
        lookup: None,
        cast: None,
        zero_point: None,
    }
}

/// A commit whose loops have strides in bytes.
pub(super) fn commit(
    setup: &Setup<'_>,
    memory: Memory,
    base: u64,
    loops: &[SequencerLoop],
    bytes: u64,
    slices: Vec<(u64, u64)>,
) -> Commit {
    let widths = &setup.machine.commit.main_widths_bytes;
    let width = widths.iter().copied().filter(|width| bytes.is_multiple_of(*width)).max().unwrap_or(bytes);
    let loops = entries(setup.machine, loops);
    Commit { memory, base, loops, bytes, width, to_bf16: false, relu: false, slices }
}

/// A command of engines in a row, without contraction.
pub(super) fn copy(setup: &Setup<'_>, name: &str, fetch: Fetch, switch: Switch, commit: Commit) -> Exec {
    let stream = Stream { fetch, switch, contract: None, vector: None, cast: None, transpose: None, commit };
    exec(setup, name, Context::Main, stream)
}

/// A command on a context.
pub(super) fn exec(setup: &Setup<'_>, name: &str, context: Context, stream: Stream) -> Exec {
    let body = ExecBody::Stream(Box::new(stream));
    Exec { name: name.to_string(), context, pes: setup.fused_pes, body, span: Span::default() }
}

/// A size that is known.
pub(super) fn fixed(size: u64) -> Count {
    Count::Fixed(size)
}
