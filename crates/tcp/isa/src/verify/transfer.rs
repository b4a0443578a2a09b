//! DMA: loops, packets, alignment, addresses inside memories, tables of rows (vISA book, DMA engine).

use tilewright_base::Diagnostic;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use super::context::refusal;
use crate::capped::{Capped, TOO_MANY};
use crate::footprint::{Footprint, MemoryKind, of_transfer};
use crate::program::transfer::{Address, MemoryInstance};
use crate::program::{Program, Transfer};

pub(super) fn check(machine: &Tcp, program: &Program, written: &Transfer, found: &mut Vec<Diagnostic>) {
    if let Some(id) = program.missing_register(written.loops.iter().map(|row| row.size)) {
        let count = program.registers.len();
        return found.push(refuse(
            written,
            "tcp/queue-register",
            &format!("register {} does not exist", id.0),
            format!("{count} registers"),
            "one that is declared",
        ));
    }
    let most: Vec<i64> = program.registers.iter().map(|register| register.most).collect();
    let transfer = written.resolved(&most);
    let before = found.len();
    check_loops(machine, &transfer, found);
    check_packet(machine, &transfer, found);
    check_aligned(machine, &transfer, found);
    check_index(machine, program, &transfer, found);
    if found.len() == before {
        check_bounds(machine, program, &transfer, found);
    }
}

fn refuse(
    transfer: &Transfer,
    code: &'static str,
    message: &str,
    allowed: String,
    instead: &str,
) -> Diagnostic {
    refusal(code, transfer.span, format!("`{}`: {message}", transfer.name), allowed, instead)
}

fn check_loops(machine: &Tcp, transfer: &Transfer, found: &mut Vec<Diagnostic>) {
    let loops = transfer.loops.iter().filter(|row| row.size.fixed() != 1).count() as u64;
    let empty = transfer.loops.iter().any(|row| row.size.fixed() == 0);
    let long = transfer.loops.iter().any(|row| row.size.fixed() > machine.sequencer.entry_size_max);
    let bytes = transfer.loops.iter().fold(transfer.packet, |all, row| all.capped_mul(row.size.fixed()));
    if loops > machine.tdma.loops || empty || long || bytes == TOO_MANY {
        found.push(refuse(
            transfer,
            "tcp/transfer-loops",
            &format!("{loops} loops{}", if empty { ", one of size 0" } else { "" }),
            format!("{} loops of 1 to {}", machine.tdma.loops, machine.sequencer.entry_size_max),
            "two transfers, or a longer packet",
        ));
    }
}

fn check_packet(machine: &Tcp, transfer: &Transfer, found: &mut Vec<Diagnostic>) {
    let most = machine.tdma.packet_max_bytes;
    if transfer.packet == 0 || transfer.packet > most {
        found.push(refuse(
            transfer,
            "tcp/transfer-packet",
            &format!("packets of {} B", transfer.packet),
            format!("1 to {most} B"),
            "a loop over shorter packets",
        ));
    }
}

fn check_aligned(machine: &Tcp, transfer: &Transfer, found: &mut Vec<Diagnostic>) {
    let medium = |address: Address| address.locate().map(|located| located.medium);
    let is_dm = |medium| matches!(medium, Some(MemoryInstance::Dm { .. }));
    let (from, to) = (medium(transfer.source), medium(transfer.target));
    let joins =
        (from == Some(MemoryInstance::Hbm) && is_dm(to)) || (to == Some(MemoryInstance::Hbm) && is_dm(from));
    let unit = machine.tdma.alignment_bytes;
    let strides = transfer.loops.iter().filter(|row| row.size.fixed() > 1);
    let aligned = strides
        .flat_map(|row| [row.source.unsigned_abs(), row.target.unsigned_abs()])
        .chain([transfer.source.0, transfer.target.0, transfer.packet])
        .all(|part| part.is_multiple_of(unit));
    if joins && !aligned {
        found.push(refuse(
            transfer,
            "tcp/transfer-align",
            "addresses, strides or packets between HBM and data memory are not aligned",
            format!("multiples of {unit} B"),
            "rows padded to whole units",
        ));
    }
}

fn check_index(machine: &Tcp, program: &Program, transfer: &Transfer, found: &mut Vec<Diagnostic>) {
    let Some(index) = transfer.index else { return };
    let typed = matches!(index.dtype, Dtype::I32 | Dtype::U32);
    let rows = transfer.loops.first().map(|row| row.size.fixed());
    let located = index.table.locate();
    let held = located.is_some_and(|located| {
        located.chip < program.chips
            && matches!(located.medium, MemoryInstance::Hbm | MemoryInstance::Dm { .. })
    });
    if !typed || rows.is_none() || !held || !index.table.0.is_multiple_of(machine.tdma.alignment_bytes.min(4))
    {
        let rows = rows.map_or("no loop over".to_owned(), |rows| rows.to_string());
        found.push(refuse(
            transfer,
            "tcp/transfer-index",
            &format!("a table of {} for {rows} rows", index.dtype),
            "i32 or u32, in HBM or data memory, for the outermost loop".into(),
            "a loop over the rows, and a table of i32",
        ));
    }
}

fn check_bounds(machine: &Tcp, program: &Program, transfer: &Transfer, found: &mut Vec<Diagnostic>) {
    let footprint = of_transfer(machine, transfer, &[]);
    let Some((does, what, allowed)) = outside(program, &footprint) else { return };
    found.push(refuse(
        transfer,
        "tcp/transfer-bounds",
        &format!("{does} {what}"),
        allowed,
        "bases, sizes and strides that stay in one memory, or in the same place of each slice",
    ));
}

fn outside(program: &Program, footprint: &Footprint) -> Option<(&'static str, String, String)> {
    let does = |write: bool| if write { "writes" } else { "reads" };
    if let Some(outside) = footprint.outside.first() {
        let (start, end) = outside.bytes;
        let (what, allowed) = match outside.memory {
            Some(memory) => (
                format!("bytes {start}..{end} of {}", memory.name()),
                format!(
                    "0..{} of each {}",
                    outside.capacity,
                    if memory == MemoryKind::Hbm { "chip" } else { "slice" }
                ),
            ),
            None => (
                format!("addresses {start:#x}..{end:#x}, where no memory is"),
                "memories of the machine".to_owned(),
            ),
        };
        return Some((does(outside.write), what, allowed));
    }
    let far = footprint.accesses.iter().find(|access| access.chip >= program.chips)?;
    Some((does(far.write), format!("chip {}", far.chip), format!("{} chips", program.chips)))
}
