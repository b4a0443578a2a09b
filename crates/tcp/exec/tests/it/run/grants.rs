//! Rows by index across grants: an access goes through exactly if every byte of it is granted.

use tilewright_base::Span;
use tilewright_num::Dtype;
use tilewright_tcp_exec::{MemoryState, transfer_within};
use tilewright_tcp_isa::address_space::AddressSpace;
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::grant::Grant;
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, Transfer, TransferIndex, TransferLoop,
};
use tilewright_tcp_isa::program::{Count, Program};

use crate::run::images::{Dice, span, tcp};

/// Bytes of HBM that the accesses lie in.
const WINDOW: u64 = 1 << 14;
const TABLE: u64 = 1 << 16;
const GRANTS: usize = 12;

fn hbm(offset: u64) -> Address {
    Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Hbm, offset })
}

/// The first byte of a data memory of a PE.
fn own(pe: u64) -> Address {
    let slice = pe * tcp().pe.slices + 1;
    Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Dm { slice }, offset: 0 })
}

fn program(grants: Vec<Grant>) -> Program {
    Program { machine: "tcp".into(), chips: 1, grants, ..Program::default() }
}

fn drawn_grants(dice: &mut Dice) -> Vec<Grant> {
    let span: Span = span();
    let mut grants: Vec<Grant> = (0..GRANTS)
        .map(|_| {
            let first = dice.roll(8);
            let pes = (first, first + 1 + dice.roll(8 - first));
            let (start, bytes) = (dice.roll(WINDOW), dice.roll(2000) + 1);
            Grant { chip: 0, pes, first: hbm(start), bytes, write: dice.roll(2) == 0, span }
        })
        .collect();
    grants.push(Grant { chip: 0, pes: (0, 8), first: hbm(TABLE), bytes: 4, write: false, span });
    grants
}

/// Byte by byte, from the grants alone.
fn may(grants: &[Grant], pe: u64, bytes: std::ops::Range<u64>, write: bool) -> bool {
    bytes.into_iter().all(|byte| {
        grants.iter().any(|grant| {
            let for_pe = grant.pes.0 <= pe && pe < grant.pes.1;
            let inside = grant.first.0 <= byte && byte < grant.first.0 + grant.bytes;
            for_pe && inside && (grant.write || !write)
        })
    })
}

fn one_row(pe: u64, scatter: bool, packet: u64) -> Transfer {
    let (source, target) = if scatter { (own(pe), hbm(0)) } else { (hbm(0), own(pe)) };
    Transfer {
        name: "row".into(),
        source,
        target,
        loops: vec![TransferLoop { size: Count::Fixed(1), source: 0, target: 0 }],
        packet,
        index: Some(TransferIndex { table: hbm(TABLE), dtype: Dtype::U32, scatter }),
        span: span(),
    }
}

/// A million accesses; rows that are refused move nothing.
#[test]
fn no_access_of_a_million_gets_past_a_grant() {
    let dice = &mut Dice(23);
    let machine = tcp();
    let (mut through, mut refused) = (0_u32, 0_u32);
    for _ in 0..1000 {
        let grants = drawn_grants(dice);
        let program = program(grants.clone());
        let pe = dice.roll(8);
        let space = AddressSpace::of(machine, &program, PeId { chip: 0, pe }).unwrap();
        let mut state = MemoryState::new(machine, 1);
        for _ in 0..1000 {
            let scatter = dice.roll(2) == 0;
            let (row, packet) = (dice.roll(WINDOW), dice.roll(64) + 1);
            state.write(hbm(TABLE), &(row as u32).to_le_bytes()).unwrap();
            let mark = [dice.next() as u8 | 1];
            let (from, to) = if scatter { (own(pe), hbm(row)) } else { (hbm(row), own(pe)) };
            state.write(from, &mark).unwrap();
            state.write(to, &[0]).unwrap();
            let done = transfer_within(machine, &mut state, &one_row(pe, scatter, packet), Some(&space));
            let allowed = may(&grants, pe, row..row + packet, scatter);
            assert_eq!(done.is_ok(), allowed, "pe {pe}, row {row}, {packet} B, scatter {scatter}: {done:?}");
            let mut now = [0];
            state.read(to, &mut now).unwrap();
            assert_eq!(now[0] == mark[0], allowed);
            through += u32::from(allowed);
            refused += u32::from(!allowed && done.unwrap_err().is_not_granted());
        }
    }
    assert_eq!(through + refused, 1_000_000);
    assert!(through > 10_000, "only {through} accesses were allowed");
}
