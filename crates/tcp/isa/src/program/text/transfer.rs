//! DMA commands.

use std::fmt::Write as _;

use tilewright_ir::{Args, Fields, Item, Log, Node, Read, Sign, print};

use super::address::{print_address, read_address};
use super::names::{NameSpelling, ProgramNames, read_dtype};
use crate::program::Transfer;
use crate::program::transfer::{Address, MemoryInstance, SLICE_STRIDE, TransferIndex, TransferLoop};

const FIELDS: &[&str] = &["from", "to", "loops", "packet", "gather", "scatter"];

pub(super) fn read_transfer(node: Node<'_>, names: &ProgramNames<'_>, log: &mut Log) -> Option<Transfer> {
    let name = log.keep(node.line(|args| args.name("the name of the transfer")));
    log.keep(node.needs_block())?;
    let fields = Fields::new(node, FIELDS, log);
    let source = fields.one("from", log, read_address);
    let target = fields.one("to", log, read_address);
    let loops = fields.maybe("loops", Vec::new(), log, |args| read_loops(args, names));
    let packet = fields.one("packet", log, |args| args.unsigned("bytes"));
    let gather = fields.maybe("gather", None, log, |args| read_index(args, false).map(Some));
    let scatter = fields.maybe("scatter", None, log, |args| read_index(args, true).map(Some));
    let (gather, scatter) = (gather?, scatter?);
    if let (Some(_), Some(_)) = (gather, scatter) {
        let second = fields.node("scatter", log)?;
        log.push(
            tilewright_base::Diagnostic::error("program/transfer", "a transfer that gathers and scatters")
                .at(second.span(), "")
                .allowed("one of `gather` and `scatter`")
                .instead("leave one out"),
        );
        return None;
    }
    Some(Transfer {
        name: name?.text.into_owned(),
        source: source?,
        target: target?,
        loops: loops?,
        packet: packet?,
        index: gather.or(scatter),
        span: node.span(),
    })
}

pub(super) fn print_transfer(transfer: &Transfer, spell: NameSpelling<'_>) -> Item {
    let mut fields = vec![
        Item::line(format!("from {}", print_address(transfer.source))),
        Item::line(format!("to {}", print_address(transfer.target))),
    ];
    if !transfer.loops.is_empty() {
        let sides = [transfer.source, transfer.target].map(in_data_memory);
        let mut text = "loops ".to_string();
        for row in &transfer.loops {
            let (source, target) = (print_stride(row.source, sides[0]), print_stride(row.target, sides[1]));
            let _ = write!(text, "({}: {source} -> {target})", spell.count(row.size));
        }
        fields.push(Item::line(text));
    }
    fields.push(Item::line(format!("packet {}", transfer.packet)));
    if let Some(index) = transfer.index {
        let word = if index.scatter { "scatter" } else { "gather" };
        fields.push(Item::line(format!("{word} {} as {}", print_address(index.table), index.dtype)));
    }
    Item::fit(format!("transfer {}", print::name(&transfer.name)), fields)
}

fn read_loops(args: &mut Args<'_>, names: &ProgramNames<'_>) -> Read<Vec<TransferLoop>> {
    args.repeated(|group| {
        let size = names.count(group)?;
        group.sign(Sign::Colon)?;
        let source = read_stride(group)?;
        group.sign(Sign::Arrow)?;
        Ok(TransferLoop { size, source, target: read_stride(group)? })
    })
}

/// Bytes, or a number of strides between slices.
fn read_stride(args: &mut Args<'_>) -> Read<i64> {
    if args.eat_word("slice") {
        return Ok(SLICE_STRIDE);
    }
    let before = args.clone();
    let number = args.signed("a stride in bytes, or `slice`")?;
    if !args.eat(Sign::Star) {
        return Ok(number);
    }
    args.keyword("slice")?;
    number.checked_mul(SLICE_STRIDE).ok_or_else(|| before.expected("a stride of 64 bits"))
}

fn print_stride(stride: i64, in_data_memory: bool) -> String {
    match stride / SLICE_STRIDE {
        _ if !in_data_memory || stride % SLICE_STRIDE != 0 || stride == 0 => stride.to_string(),
        1 => "slice".to_string(),
        slices => format!("{slices}*slice"),
    }
}

fn in_data_memory(address: Address) -> bool {
    address.locate().is_some_and(|located| matches!(located.medium, MemoryInstance::Dm { .. }))
}

fn read_index(args: &mut Args<'_>, scatter: bool) -> Read<TransferIndex> {
    let table = read_address(args)?;
    args.keyword("as")?;
    Ok(TransferIndex { table, dtype: read_dtype(args)?, scatter })
}
