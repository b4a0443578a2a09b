//! The commit unit.

use tilewright_ir::{Args, Fields, Item, Log, Node, Read, Sign};

use super::address::{print_memory, read_memory};
use super::loops::{print_loops, read_at, read_loops};
use super::names::{NameSpelling, ProgramNames};
use crate::program::exec::Commit;

const FIELDS: &[&str] = &["loops", "bytes", "width", "to_bf16", "relu", "slices"];

pub(super) fn read_commit(node: Node<'_>, names: &ProgramNames<'_>, log: &mut Log) -> Option<Commit> {
    let head = log.keep(node.line(|args| Ok((read_memory(args)?, read_at(args)?))));
    log.keep(node.needs_block())?;
    let fields = Fields::new(node, FIELDS, log);
    let loops = fields.maybe("loops", Vec::new(), log, |args| read_loops(args, names));
    let bytes = fields.one("bytes", log, |args| args.unsigned("bytes of a flit"));
    let width = fields.one("width", log, |args| args.unsigned("bytes of a write"));
    let to_bf16 = fields.flag("to_bf16", log);
    let relu = fields.flag("relu", log);
    let slices = fields.maybe("slices", Vec::new(), log, read_slices);
    let (memory, base) = head?;
    Some(Commit {
        memory,
        base,
        loops: loops?,
        bytes: bytes?,
        width: width?,
        to_bf16: to_bf16?,
        relu: relu?,
        slices: slices?,
    })
}

pub(super) fn print_commit(commit: &Commit, spell: NameSpelling<'_>) -> Item {
    let mut fields = Vec::new();
    if !commit.loops.is_empty() {
        fields.push(Item::line(format!("loops {}", print_loops(&commit.loops, spell))));
    }
    fields.push(Item::line(format!("bytes {}", commit.bytes)));
    fields.push(Item::line(format!("width {}", commit.width)));
    if commit.to_bf16 {
        fields.push(Item::line("to_bf16"));
    }
    if commit.relu {
        fields.push(Item::line("relu"));
    }
    if !commit.slices.is_empty() {
        let ranges = commit.slices.iter().map(|(first, end)| format!("{first} to {end}"));
        fields.push(Item::line(format!("slices {}", ranges.collect::<Vec<_>>().join(", "))));
    }
    Item::fit(format!("commit {} at {:#x}", print_memory(commit.memory), commit.base), fields)
}

/// `A to B, ..`
fn read_slices(args: &mut Args<'_>) -> Read<Vec<(u64, u64)>> {
    let mut ranges = Vec::new();
    loop {
        let first = args.unsigned("the first slice of a range")?;
        args.keyword("to")?;
        ranges.push((first, args.unsigned("the end of a range of slices")?));
        if !args.eat(Sign::Comma) {
            return Ok(ranges);
        }
    }
}
