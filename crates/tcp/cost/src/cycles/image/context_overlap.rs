//! Two images side by side: how fast a sub command goes while a main command runs (vISA book, data memory and
//! tensor register file).
//!
//! The rules are those of [`crate::cycles::contention`]. A main command that is busy in a unit for a part of
//! its cycles is taken to spread that part evenly. Units of one command work at the pace of the slowest, so a
//! sub command is slowed only where a slowed unit becomes that. Nests of accesses count as walks of their
//! innermost loop.
//!
//! DMA has the lowest priority: [`bank_shares_q32`] is what a command leaves of the banks to it.

use tilewright_base::invariant::{Exact, to_index};
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::contraction::ContractionStage;
use tilewright_tcp_isa::program::exec::{Exec, ExecBody, Memory};

use super::accesses::UnitAccesses;
use super::exec_cycles;
use crate::cycles::contention::{BankWalk, ContractionReads, bank_slowdown, blocked_cycles};
use crate::cycles::{PipelineStage, registers};
use tilewright_tcp_isa::capped::Capped;

const FULL_Q32: u64 = 1 << 32;

/// Accesses of a unit to data memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankUse {
    /// Addresses of the accesses.
    pub walk: BankWalk,
    /// In so many cycles.
    pub cycles: u64,
}

/// What a command takes of banks and ports, on each slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Cycles before its first access.
    pub overhead_cycles: u64,
    /// Cycles from then on, alone.
    pub stream_cycles: u64,
    /// Cycles of its slowest stage: from its first access on it uses ports and banks for so long. What
    /// follows only drains.
    pub busy_cycles: u64,
    /// Fetch and commit unit, where they use data memory.
    pub banks: [Option<BankUse>; 2],
    /// Cycles in which it stores to the contraction engine's register file.
    pub store_cycles: u64,
    /// What its contraction reads there.
    pub reads: Option<ContractionReads>,
}

/// What a resolved image takes of banks and ports.
pub fn traffic(machine: &Tcp, exec: &Exec) -> Traffic {
    let cycles = exec_cycles(machine, exec);
    let unit = |accesses: UnitAccesses, stage: PipelineStage| {
        let cycles = cycles.stage_cycles(stage);
        (cycles > 0).then(|| BankUse { walk: accesses.walk(), cycles })
    };
    let commit = |commit| {
        UnitAccesses::of_commit(machine, exec.context, commit)
            .and_then(|accesses| unit(accesses, PipelineStage::Commit))
    };
    let (banks, memory, reads) = match &exec.body {
        ExecBody::Stream(stream) => {
            let fetch =
                unit(UnitAccesses::of_fetch(machine, exec.context, &stream.fetch), PipelineStage::Fetch);
            let reads = stream.contract.as_ref().map(|contract| {
                let shape = ContractionStage::of(machine, stream, contract);
                let steps = shape.groups.capped_mul(shape.group_steps);
                registers::reads(machine, stream, contract, steps).ports
            });
            ([fetch, commit(&stream.commit)], stream.commit.memory, reads)
        }
        ExecBody::Fill(fill) => ([None, commit(&fill.commit)], fill.commit.memory, None),
        ExecBody::Short(short) => {
            ([unit(UnitAccesses::of_short(machine, *short), PipelineStage::Load), None], short.memory, None)
        }
    };
    let stores = matches!(memory, Memory::Trf { .. });
    Traffic {
        overhead_cycles: cycles.overhead_cycles,
        stream_cycles: cycles.total_cycles.exact_sub(cycles.overhead_cycles),
        busy_cycles: cycles.stage_cycles(cycles.binding),
        banks,
        store_cycles: if stores { cycles.stage_cycles(PipelineStage::Load) } else { 0 },
        reads,
    }
}

/// The speed of a sub command past its overhead, in the busy cycles of a main command past its own, in parts
/// of 2^32; 0 if it stalls.
pub fn sub_speed_q32(machine: &Tcp, sub: &Traffic, main: &Traffic) -> u64 {
    let alone = u128::from(sub.stream_cycles);
    let mut slowed = alone;
    for used in sub.banks.iter().flatten() {
        slowed = slowed.max(at_speed(used.cycles, bank_speed_q32(machine, used, main)));
    }
    if let Some(reads) = main.reads.filter(|_| sub.store_cycles > 0) {
        let blocked = part_q32(blocked_cycles(machine, &reads), main.busy_cycles);
        slowed = slowed.max(at_speed(sub.store_cycles, FULL_Q32 - blocked));
    }
    if slowed == u128::MAX {
        return 0;
    }
    u64::try_from((alone << 32) / slowed.max(1)).unwrap_or(FULL_Q32).clamp(1, FULL_Q32)
}

/// The part of its busy cycles in which a command accesses each bank of data memory, in parts of 2^32. DMA
/// comes after everyone else, and its accesses take all banks, so it goes at the pace that the busiest bank
/// leaves to it.
pub fn bank_shares_q32(machine: &Tcp, command: &Traffic) -> Vec<u64> {
    let banks = to_index(machine.dm.banks);
    let period = machine.dm.banks.capped_mul(machine.dm.bank_access_bytes).max(1);
    let mut shares = vec![0_u64; banks];
    for used in command.banks.iter().flatten() {
        let mut touched = vec![0_u64; banks];
        for at in 0..period {
            let (first, count) = used.walk.banks(machine, at);
            for bank in first..first.capped_add(count) {
                let bank = to_index(bank % machine.dm.banks);
                if let Some(touched) = touched.get_mut(bank) {
                    *touched += 1;
                }
            }
        }
        let busy = part_q32(used.cycles, command.busy_cycles);
        for (share, touched) in shares.iter_mut().zip(touched) {
            *share = share.capped_add(times(part_q32(touched, period), busy)).min(FULL_Q32);
        }
    }
    shares
}

/// How fast accesses proceed while both units of a main command run. Those that share no bank never wait; a
/// short walk may not reach one.
fn bank_speed_q32(machine: &Tcp, sub: &BankUse, main: &Traffic) -> u64 {
    let touched = banks_of(machine, sub);
    let meets =
        |used: &&BankUse| banks_of(machine, used).iter().zip(&touched).any(|(one, other)| *one && *other);
    main.banks.iter().flatten().filter(meets).fold(FULL_Q32, |speed, used| {
        let beside = bank_slowdown(machine, &used.walk, &sub.walk);
        let waits = part_q32(beside.cycles.saturating_sub(beside.served), beside.cycles);
        let waits = times(waits, part_q32(used.cycles, main.busy_cycles));
        times(speed, FULL_Q32 - waits)
    })
}

/// The banks that accesses of a unit touch, one access a cycle.
fn banks_of(machine: &Tcp, used: &BankUse) -> Vec<bool> {
    let mut touched = vec![false; to_index(machine.dm.banks)];
    let period = machine.dm.banks.capped_mul(machine.dm.bank_access_bytes).max(1);
    for at in 0..used.cycles.min(period) {
        let (first, count) = used.walk.banks(machine, at);
        for bank in first..first.capped_add(count) {
            let bank = to_index(bank % machine.dm.banks);
            if let Some(touched) = touched.get_mut(bank) {
                *touched = true;
            }
        }
    }
    touched
}

fn times(one_q32: u64, other_q32: u64) -> u64 {
    u64::try_from((u128::from(one_q32) * u128::from(other_q32)) >> 32).unwrap_or(FULL_Q32)
}

/// A part of so many, at most all.
fn part_q32(part: u64, all: u64) -> u64 {
    let part = (u128::from(part) << 32) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(FULL_Q32).min(FULL_Q32)
}

/// Cycles at a speed; `u128::MAX` if there is none.
fn at_speed(cycles: u64, speed_q32: u64) -> u128 {
    let cycles_q32 = u128::from(cycles) << 32;
    if cycles == 0 { 0 } else { cycles_q32.checked_div(u128::from(speed_q32)).unwrap_or(u128::MAX) }
}
