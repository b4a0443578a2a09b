//! The contraction engine.

use tilewright_ir::{Args, Fields, Item, Log, Node, Read};

use super::loops::{print_loops, print_steps, read_at, read_loops, read_steps};
use super::names::{NameSpelling, ProgramNames, read_dtype};
use crate::program::Count;
use crate::program::exec::{Contract, ContractOp, Drain, FlitTranspose, Shift};

const FIELDS: &[&str] =
    &["op", "flits", "transpose", "shift", "repeats", "lanes", "trf", "tree", "steps", "drain"];
const OPS: [(&str, ContractOp); 2] = [("add", ContractOp::Add), ("max", ContractOp::Max)];
const DRAINS: [(&str, Drain); 2] = [("interleaved", Drain::Interleaved), ("sequential", Drain::Sequential)];

const FLITS: u64 = 1;
const REPEATS: Count = Count::Fixed(1);

pub(super) fn read_contract(node: Node<'_>, names: &ProgramNames<'_>, log: &mut Log) -> Option<Contract> {
    log.keep(node.line(|_| Ok(())))?;
    log.keep(node.needs_block())?;
    let fields = Fields::new(node, FIELDS, log);
    let op = fields.maybe("op", ContractOp::Add, log, |args| args.one_of("operation", &OPS));
    let flits = fields.maybe("flits", FLITS, log, |args| args.unsigned("flits of a packet"));
    let transpose = fields.maybe("transpose", None, log, |args| read_transpose(args).map(Some));
    let shift = fields.maybe("shift", None, log, |args| read_shift(args).map(Some));
    let repeats = fields.maybe("repeats", REPEATS, log, |args| names.count(args));
    let lanes = fields.one("lanes", log, |args| args.unsigned("a number of lanes"));
    let trf =
        fields.one("trf", log, |args| Ok((read_dtype(args)?, read_at(args)?, read_loops(args, names)?)));
    let tree = fields.one("tree", log, |args| args.unsigned("a number of neighbours"));
    let steps = fields.maybe("steps", Vec::new(), log, |args| read_steps(args, names));
    let drain = fields.maybe("drain", Drain::Interleaved, log, |args| args.one_of("drain order", &DRAINS));
    let (dtype, base, loops) = trf?;
    Some(Contract {
        op: op?,
        flits: flits?,
        transpose: transpose?,
        shift: shift?,
        repeats: repeats?,
        lanes: lanes?,
        dtype,
        base,
        loops,
        tree: tree?,
        steps: steps?,
        drain: drain?,
    })
}

pub(super) fn print_contract(contract: &Contract, spell: NameSpelling<'_>) -> Item {
    let mut fields = Vec::new();
    if contract.op == ContractOp::Max {
        fields.push(Item::line("op max"));
    }
    if contract.flits != FLITS {
        fields.push(Item::line(format!("flits {}", contract.flits)));
    }
    if let Some(FlitTranspose { rows, columns }) = contract.transpose {
        fields.push(Item::line(format!("transpose {rows} {columns}")));
    }
    if let Some(Shift { initial, stride, shifts, pop }) = contract.shift {
        let text = format!("shift initial={initial} stride={stride} shifts={shifts} pop={pop}");
        fields.push(Item::line(text));
    }
    if contract.repeats != REPEATS {
        fields.push(Item::line(format!("repeats {}", spell.count(contract.repeats))));
    }
    fields.push(Item::line(format!("lanes {}", contract.lanes)));
    let loops = print_loops(&contract.loops, spell);
    let trf = format!("trf {} at {:#x} {loops}", contract.dtype, contract.base);
    fields.push(Item::line(trf.trim_end()));
    fields.push(Item::line(format!("tree {}", contract.tree)));
    if !contract.steps.is_empty() {
        fields.push(Item::line(format!("steps {}", print_steps(&contract.steps, spell))));
    }
    if contract.drain == Drain::Sequential {
        fields.push(Item::line("drain sequential"));
    }
    Item::fit("contract", fields)
}

fn read_transpose(args: &mut Args<'_>) -> Read<FlitTranspose> {
    let rows = args.unsigned("a number of rows")?;
    Ok(FlitTranspose { rows, columns: args.unsigned("a number of columns")? })
}

fn read_shift(args: &mut Args<'_>) -> Read<Shift> {
    args.named("initial")?;
    let initial = args.signed("an element")?;
    args.named("stride")?;
    let stride = args.unsigned("elements between windows")?;
    args.named("shifts")?;
    let shifts = args.unsigned("a number of windows")?;
    args.named("pop")?;
    Ok(Shift { initial, stride, shifts, pop: args.unsigned("a number of flits")? })
}
