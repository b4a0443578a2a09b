//! The fetch unit.

use tilewright_ir::{Args, Fields, Item, Log, Node, Read, print};

use super::loops::{print_limit, print_loops, read_at, read_limit, read_loops};
use super::names::{NameSpelling, ProgramNames, read_dtype};
use crate::program::exec::{Fetch, Indirect, Interleave, Lookup};

const FIELDS: &[&str] =
    &["loops", "packet", "interleave", "indirect", "limit", "lookup", "cast", "zero_point"];

pub(super) fn read_fetch(node: Node<'_>, names: &ProgramNames<'_>, log: &mut Log) -> Option<Fetch> {
    let head = log.keep(node.line(|args| Ok((read_dtype(args)?, read_at(args)?))));
    log.keep(node.needs_block())?;
    let fields = Fields::new(node, FIELDS, log);
    let loops = fields.maybe("loops", Vec::new(), log, |args| read_loops(args, names));
    let packet = fields.one("packet", log, |args| args.unsigned("elements"));
    let interleave = fields.maybe("interleave", None, log, |args| read_interleave(args).map(Some));
    let indirect = fields.maybe("indirect", None, log, |args| read_indirect(args).map(Some));
    let limits = fields.many("limit", log, |args| read_limit(args, names));
    let lookup = fields.maybe("lookup", None, log, |args| read_lookup(args).map(Some));
    let cast = fields.maybe("cast", None, log, |args| read_dtype(args).map(Some));
    let zero_point = fields.maybe("zero_point", None, log, |args| args.signed("a zero point").map(Some));
    let (dtype, base) = head?;
    Some(Fetch {
        dtype,
        base,
        interleave: interleave?,
        loops: loops?,
        packet: packet?,
        indirect: indirect?,
        limits: limits?,
        lookup: lookup?,
        cast: cast?,
        zero_point: zero_point?,
    })
}

pub(super) fn print_fetch(fetch: &Fetch, spell: NameSpelling<'_>) -> Item {
    let mut fields = Vec::new();
    if !fetch.loops.is_empty() {
        fields.push(Item::line(format!("loops {}", print_loops(&fetch.loops, spell))));
    }
    fields.push(Item::line(format!("packet {}", fetch.packet)));
    if let Some(Interleave { at_loop, base }) = fetch.interleave {
        fields.push(Item::line(format!("interleave {at_loop} at {base:#x}")));
    }
    if let Some(Indirect { at_loop, table }) = fetch.indirect {
        fields.push(Item::line(format!("indirect {at_loop} table {table:#x}")));
    }
    for limit in &fetch.limits {
        fields.push(Item::line(format!("limit {}", print_limit(limit, spell))));
    }
    if let Some(lookup) = &fetch.lookup {
        let patterns = print::list(&lookup.patterns, |pattern| format!("{pattern:#x}"));
        fields.push(Item::line(format!("lookup {} {patterns}", lookup.dtype)));
    }
    fields.extend(fetch.cast.map(|dtype| Item::line(format!("cast {dtype}"))));
    fields.extend(fetch.zero_point.map(|zero| Item::line(format!("zero_point {zero}"))));
    Item::fit(format!("fetch {} at {:#x}", fetch.dtype, fetch.base), fields)
}

fn read_interleave(args: &mut Args<'_>) -> Read<Interleave> {
    Ok(Interleave { at_loop: args.integer("the index of a loop")?, base: read_at(args)? })
}

fn read_indirect(args: &mut Args<'_>) -> Read<Indirect> {
    let at_loop = args.integer("the index of a loop")?;
    args.keyword("table")?;
    Ok(Indirect { at_loop, table: args.unsigned("a byte offset")? })
}

fn read_lookup(args: &mut Args<'_>) -> Read<Lookup> {
    let dtype = read_dtype(args)?;
    Ok(Lookup { dtype, patterns: args.list("a list of patterns", |item| item.integer("a pattern"))? })
}
