//! What address translation lets through.

use tilewright_ir::{Item, Log, Node};

use super::address::{print_address, print_pe, read_address, read_pe};
use crate::program::Grant;

/// Reads a grant of address translation: `pe0 to 4 ADDRESS bytes=N write`.
pub(super) fn read_grant(node: Node<'_>, log: &mut Log) -> Option<Grant> {
    log.keep(node.leaf(|args| {
        let (chip, first_pe) = read_pe(args)?;
        let end = if args.eat_word("to") {
            args.unsigned("one past the last PE")?
        } else {
            first_pe.saturating_add(1)
        };
        let first = read_address(args)?;
        args.named("bytes")?;
        let bytes = args.unsigned("a number of bytes")?;
        let write = args.eat_word("write");
        Ok(Grant { chip, pes: (first_pe, end), first, bytes, write, span: node.span() })
    }))
}

pub(super) fn print_grant(grant: &Grant) -> Item {
    let (first, end) = grant.pes;
    let to = if first.saturating_add(1) == end { String::new() } else { format!(" to {end}") };
    let write = if grant.write { " write" } else { "" };
    let pe = print_pe(grant.chip, first);
    Item::line(format!("grant {pe}{to} {} bytes={}{write}", print_address(grant.first), grant.bytes))
}
