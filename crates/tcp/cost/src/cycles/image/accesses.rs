//! The accesses of fetch and commit units to the banks of data memory, one by one, and how long they hold a
//! bank (vISA book, data memory; the bank rule is [`crate::banks`]).
//!
//! Banks depend on addresses modulo one sweep over all of them, so strides are kept modulo a sweep.

use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;
use tilewright_notation::algebra::access::AccessLoop;
use tilewright_tcp_isa::memory::{bytes_of, payload_bits};
use tilewright_tcp_isa::program::exec::{
    Commit, Context, Exec, ExecBody, Fetch, Memory, ShortLoad, iterations,
};

use super::{pattern, read_bytes};
use crate::banks::longest_hold;
use crate::cycles::contention::BankWalk;
use tilewright_tcp_isa::capped::Capped;

/// One unit's accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnitAccesses {
    base_bytes: u64,
    /// Outermost first; one iteration of all of them is an access.
    loops: Vec<AccessLoop>,
    width_bytes: u64,
}

impl UnitAccesses {
    /// What the fetch unit of a context reads.
    pub(super) fn of_fetch(machine: &Tcp, context: Context, fetch: &Fetch) -> UnitAccesses {
        let (width, bits) = (read_bytes(machine, context, fetch).max(1), payload_bits(fetch.dtype).max(1));
        let merged = pattern(fetch);
        let in_bytes = |stride: u64| stride.cast_signed().capped_mul(bits.cast_signed()) / 8;
        let mut loops: Vec<AccessLoop> =
            merged.loops.iter().map(|row| in_sweep(machine, row.size, in_bytes(row.stride))).collect();
        if let Some((inner, row)) =
            loops.last_mut().zip(merged.loops.last()).filter(|(_, row)| row.stride == 1)
        {
            *inner = AccessLoop::new(bytes_of(row.size, bits).div_ceil(width), width);
        }
        UnitAccesses { base_bytes: fetch.base, loops, width_bytes: width }
    }

    /// What the commit unit of a context writes to data memory; `None` if it writes elsewhere, or nothing.
    pub(super) fn of_commit(machine: &Tcp, context: Context, commit: &Commit) -> Option<UnitAccesses> {
        if commit.memory != Memory::Dm || iterations(&commit.loops) == 0 {
            return None;
        }
        let width = match context {
            Context::Main => commit.width.max(1),
            Context::Sub => machine.commit.sub_width_bytes.max(1),
        };
        let rows = commit.loops.iter().filter(|row| row.size.fixed() > 1);
        let mut loops: Vec<AccessLoop> = Vec::with_capacity(commit.loops.len() + 1);
        for row in rows {
            let size = row.size.fixed();
            let joins = |outer: &AccessLoop| {
                i128::from(outer.stride) == i128::from(row.stride) * i128::from(size) && row.stride > 0
            };
            match loops.last_mut().filter(|outer| joins(outer)) {
                Some(outer) => {
                    *outer = AccessLoop::new(outer.size.capped_mul(size), row.stride.unsigned_abs());
                }
                None => loops.push(AccessLoop::new(size, row.stride.cast_unsigned())),
            }
        }
        let writes = commit.bytes.div_ceil(width).max(1);
        match loops.last_mut().filter(|inner| inner.stride == writes.capped_mul(width)) {
            Some(inner) => *inner = AccessLoop::new(inner.size.capped_mul(writes), width),
            None => loops.push(AccessLoop::new(writes, width)),
        }
        for row in &mut loops {
            *row = in_sweep(machine, row.size, row.stride.cast_signed());
        }
        Some(UnitAccesses { base_bytes: commit.base, loops, width_bytes: width })
    }

    /// What a direct load reads: every bank, one after the other.
    pub(super) fn of_short(machine: &Tcp, short: ShortLoad) -> UnitAccesses {
        let width = machine.fetch.sub_width_bytes.max(1);
        let loops = vec![AccessLoop::new(short.bytes.div_ceil(width), width)];
        UnitAccesses { base_bytes: short.from, loops, width_bytes: width }
    }

    /// The longest run of accesses to one bank.
    fn held(&self, machine: &Tcp) -> u64 {
        /// Longer loops than any sequencer has; what is held does not grow past it in any way that matters.
        const LONGEST: u64 = 1 << 32;
        let loops: Vec<AccessLoop> =
            self.loops.iter().map(|row| AccessLoop::new(row.size.min(LONGEST), row.stride)).collect();
        longest_hold(machine, &loops, self.width_bytes.clamp(1, machine.dm_bytes_per_cycle().max(1)))
    }

    /// These accesses as one strided walk: that of the innermost loop.
    pub(super) fn walk(&self) -> BankWalk {
        let inner = self.loops.iter().rev().find(|row| row.size > 1);
        let (base_bytes, width_bytes) = (self.base_bytes, self.width_bytes);
        BankWalk { base_bytes, stride_bytes: inner.map_or(width_bytes, |row| row.stride), width_bytes }
    }
}

/// Addresses count modulo one sweep, where a jump to elsewhere counts as one to the same bank, which is the
/// worst; a loop that goes on without a gap keeps its stride, which is less.
fn in_sweep(machine: &Tcp, size: u64, stride: i64) -> AccessLoop {
    let sweep = i64::try_from(machine.dm_bytes_per_cycle()).or_broken("a machine has few banks").max(1);
    AccessLoop::new(size, stride.rem_euclid(sweep).unsigned_abs())
}

/// Accesses in a row for which a command may hold one bank: those of its fetch and its commit unit together,
/// each at its longest.
pub fn held_accesses(machine: &Tcp, exec: &Exec) -> u64 {
    let commit = |commit: &Commit| {
        UnitAccesses::of_commit(machine, exec.context, commit).map_or(0, |accesses| accesses.held(machine))
    };
    match &exec.body {
        ExecBody::Stream(stream) => {
            let fetch = UnitAccesses::of_fetch(machine, exec.context, &stream.fetch).held(machine);
            fetch.capped_add(commit(&stream.commit))
        }
        ExecBody::Fill(fill) => commit(&fill.commit),
        ExecBody::Short(short) => UnitAccesses::of_short(machine, *short).held(machine),
    }
}
