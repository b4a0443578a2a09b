//! How long a command holds a bank of data memory: its fetches and its commits, access by access (rule of [`crate::banks`]).

use tilewright_machine::tcp::Tcp;
use tilewright_notation::algebra::access::{AccessLoop, AccessPattern};

use crate::banks::longest_hold;
use crate::cost::{Context, fetch::read_bytes};
use crate::footprint::exec::payload_bits;
use crate::program::exec::{Body, Commit, Exec, Fetch, Loop, Memory};

/// The longest run of accesses to one bank, fetch and commit together.
pub(super) fn of_exec(machine: &Tcp, exec: &Exec) -> u64 {
    match &exec.body {
        Body::Stream(stream) => {
            let fetch = of_fetch(machine, exec.context, &stream.fetch);
            fetch.saturating_add(of_commit(machine, exec.context, &stream.commit))
        }
        Body::Fill(fill) => of_commit(machine, exec.context, &fill.commit),
        // Contiguous: passes every bank in turn.
        Body::Short(_) => 0,
    }
}

fn of_fetch(machine: &Tcp, context: Context, fetch: &Fetch) -> u64 {
    let bits = payload_bits(fetch.dtype);
    let merged = merged(&fetch.loops);
    let elements = AccessPattern {
        loops: merged.iter().map(|(size, stride)| AccessLoop::new(*size, stride.unsigned_abs())).collect(),
    };
    let width = read_bytes(machine, context, &elements, fetch.packet, bits).max(1);
    let sweep = sweep_bytes(machine);
    let mut loops: Vec<AccessLoop> = merged
        .iter()
        .map(|(size, stride)| in_sweep(*size, stride.saturating_mul(signed(bits)) / 8, sweep))
        .collect();
    if let Some((last, (size, 1))) = loops.last_mut().zip(merged.last().copied()) {
        *last = AccessLoop::new((size.saturating_mul(bits) / 8).div_ceil(width), width);
    }
    longest_hold(machine, &loops, width)
}

fn of_commit(machine: &Tcp, context: Context, commit: &Commit) -> u64 {
    if commit.memory != Memory::Dm {
        return 0;
    }
    let width = match context {
        Context::Main => commit.width.max(1),
        Context::Sub => machine.commit.sub_width_bytes.max(1),
    };
    let sweep = sweep_bytes(machine);
    let mut loops: Vec<AccessLoop> =
        merged(&commit.loops).iter().map(|(size, stride)| in_sweep(*size, *stride, sweep)).collect();
    loops.push(AccessLoop::new(commit.bytes.div_ceil(width).max(1), width));
    longest_hold(machine, &loops, width)
}

fn sweep_bytes(machine: &Tcp) -> u64 {
    machine.dm.banks * machine.dm.bank_access_bytes
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Banks depend on addresses modulo one sweep over all of them.
fn in_sweep(size: u64, stride: i64, sweep: u64) -> AccessLoop {
    let stride = stride.rem_euclid(signed(sweep).max(1));
    AccessLoop::new(size, stride.unsigned_abs())
}

/// Neighbouring loops joined where one continues the other, those of size 1 left out.
fn merged(loops: &[Loop]) -> Vec<(u64, i64)> {
    let mut merged: Vec<(u64, i64)> = Vec::new();
    for row in loops {
        let size = row.size.fixed();
        match merged.last_mut() {
            _ if size == 1 => {}
            Some(outer) if outer.1 == row.stride.saturating_mul(signed(size)) => {
                *outer = (outer.0.saturating_mul(size), row.stride);
            }
            _ => merged.push((size, row.stride)),
        }
    }
    merged
}
