//! The switch engine.

use tilewright_ir::{Args, Item, Read, print};

use crate::program::exec::Switch;
use crate::switch::{Ring, Topology};

/// Topologies by name; numbers are read behind it.
const TOPOLOGIES: [(&str, Topology); 7] = [
    ("forwarding", Topology::Forwarding),
    ("broadcast01", Topology::Broadcast01(NO_RING, 0)),
    ("broadcast1", Topology::Broadcast1(NO_RING)),
    ("transpose", Topology::Transpose(NO_RING)),
    ("inter_transpose", Topology::InterTranspose(NO_RING, 0)),
    ("transposed_broadcast1", Topology::TransposedBroadcast1(NO_RING)),
    ("custom", Topology::Custom(0)),
];

const NO_RING: Ring = Ring { slice1: 0, slice0: 0 };

pub(super) fn read_switch(args: &mut Args<'_>) -> Read<Switch> {
    let topology = match args.one_of("topology", &TOPOLOGIES)? {
        Topology::Forwarding => Topology::Forwarding,
        Topology::Broadcast01(..) => Topology::Broadcast01(read_ring(args)?, read_time0(args)?),
        Topology::Broadcast1(_) => Topology::Broadcast1(read_ring(args)?),
        Topology::Transpose(_) => Topology::Transpose(read_ring(args)?),
        Topology::InterTranspose(..) => Topology::InterTranspose(read_ring(args)?, read_time0(args)?),
        Topology::TransposedBroadcast1(_) => Topology::TransposedBroadcast1(read_ring(args)?),
        Topology::Custom(_) => Topology::Custom(args.unsigned("slices of a ring")?),
    };
    let sources = if args.is_empty() {
        Vec::new()
    } else {
        args.list("a list for each slice", |item| {
            item.list("a list of sources", |source| source.integer("a slice of the ring"))
        })?
    };
    Ok(Switch { topology, sources })
}

/// Nothing for the switch that is meant when none is written.
pub(super) fn print_switch(switch: &Switch) -> Option<Item> {
    if *switch == Switch::default() {
        return None;
    }
    let ring = |name: &str, ring: Ring| format!("switch {name} {} {}", ring.slice1, ring.slice0);
    let mut text = match switch.topology {
        Topology::Forwarding => "switch forwarding".to_string(),
        Topology::Broadcast01(r, time0) => format!("{} time0={time0}", ring("broadcast01", r)),
        Topology::Broadcast1(r) => ring("broadcast1", r),
        Topology::Transpose(r) => ring("transpose", r),
        Topology::InterTranspose(r, time0) => format!("{} time0={time0}", ring("inter_transpose", r)),
        Topology::TransposedBroadcast1(r) => ring("transposed_broadcast1", r),
        Topology::Custom(slices) => format!("switch custom {slices}"),
    };
    if !switch.sources.is_empty() {
        text.push(' ');
        text.push_str(&print::list(&switch.sources, |kept| print::list(kept, u16::to_string)));
    }
    Some(Item::line(text))
}

fn read_ring(args: &mut Args<'_>) -> Read<Ring> {
    let slice1 = args.unsigned("slices of the outer part of a ring")?;
    Ok(Ring { slice1, slice0: args.unsigned("slices of the inner part of a ring")? })
}

fn read_time0(args: &mut Args<'_>) -> Read<u64> {
    args.named("time0")?;
    args.unsigned("steps of the innermost time")
}
