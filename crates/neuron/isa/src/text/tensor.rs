//! Tensors of a program: `tensor t0 sbuf partitions=128 bytes=2048 line=3 name=acc { places (0: 512) }`.

use std::fmt::Write as _;

use tilewright_ir::{Args, Bracket, Fields, Item, Log, Node, Read, Sign, print as ir};

use super::region::read_tensor;
use crate::memory::MemorySpace;
use crate::program::Allocation;

const MEMORIES: [(&str, MemorySpace); 4] = [
    (MemorySpace::Sbuf.name(), MemorySpace::Sbuf),
    (MemorySpace::Psum.name(), MemorySpace::Psum),
    (MemorySpace::Hbm.name(), MemorySpace::Hbm),
    (MemorySpace::SharedHbm.name(), MemorySpace::SharedHbm),
];

/// Reads a tensor that is made after so many instructions.
pub(super) fn read_allocation(node: Node<'_>, made_at: usize, log: &mut Log) -> Option<Allocation> {
    let allocation = log.keep(node.line(|args| read_line(args, made_at)));
    let fields = Fields::new(node, &["places"], log);
    let places = fields.maybe("places", Vec::new(), log, |args| args.repeated(read_place));
    Some(Allocation { places: places?, ..allocation? })
}

fn read_line(args: &mut Args<'_>, made_at: usize) -> Read<Allocation> {
    let storage = read_tensor(args)?;
    let memory = args.one_of("memory", &MEMORIES)?;
    let partitions = if args.eat_named("partitions") { args.integer("a number of partitions")? } else { 1 };
    args.named("bytes")?;
    let partition_bytes = args.unsigned("bytes of a partition")?;
    let tiles = if args.eat_named("tiles") { args.integer("a number of tiles")? } else { 1 };
    args.named("line")?;
    let source = args.integer("the number of a line")?;
    let name = if args.eat_named("name") { args.name("a name")?.text.into_owned() } else { String::new() };
    let places = Vec::new();
    Ok(Allocation { storage, memory, partition_bytes, tiles, name, source, places, partitions, made_at })
}

fn read_place(args: &mut Args<'_>) -> Read<(u32, u64)> {
    let partition = args.integer("a partition")?;
    args.sign(Sign::Colon)?;
    Ok((partition, args.unsigned("a byte of it")?))
}

pub(super) fn print_allocation(allocation: &Allocation) -> Item {
    let Allocation { storage, memory, partition_bytes, tiles, name, source, places, partitions, .. } =
        allocation;
    let mut text = format!("tensor t{storage} {}", memory.name());
    if *partitions != 1 {
        let _ = write!(text, " partitions={partitions}");
    }
    let _ = write!(text, " bytes={partition_bytes}");
    if *tiles != 1 {
        let _ = write!(text, " tiles={tiles}");
    }
    let _ = write!(text, " line={source}");
    if !name.is_empty() {
        let _ = write!(text, " name={}", ir::name(name));
    }
    if places.is_empty() {
        return Item::line(text);
    }
    let (open, close) = (Bracket::Round.open(), Bracket::Round.close());
    let place = |(partition, byte): &(u32, u64)| format!("{open}{partition}: {byte}{close}");
    Item::fit(text, vec![Item::line(format!("places {}", places.iter().map(place).collect::<String>()))])
}
