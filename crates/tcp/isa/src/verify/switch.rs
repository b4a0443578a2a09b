//! Switch engine: topologies over the slices of the group, sources of custom ones (rule of
//! [`crate::switch`]).

use super::context::VerifyContext;
use super::fetch;
use crate::program::exec::Stream;
use crate::switch::{SwitchError, Topology, check as check_topology};

/// Whether packets arrive at all.
pub(super) fn check(cx: &mut VerifyContext<'_>, stream: &Stream) -> bool {
    let packets = fetch::elements(&stream.fetch) / stream.fetch.packet.max(1);
    let topology = stream.switch.topology;
    if let Err(error) = check_topology(cx.machine, topology, cx.slices(), packets) {
        let (asked, allowed) = describe(error);
        cx.refuse("tcp/switch-topology", asked, allowed, "factors of two that divide what there is".into());
        return false;
    }
    let sources = &stream.switch.sources;
    let Topology::Custom(ring) = topology else {
        if !sources.is_empty() {
            cx.refuse(
                "tcp/switch-sources",
                "sources for a topology that has its own".into(),
                "sources with a custom topology only".into(),
                "a custom topology".into(),
            );
        }
        return sources.is_empty();
    };
    let named = |kept: &Vec<u16>| {
        !kept.is_empty()
            && kept.is_sorted_by(|one, other| one < other)
            && kept.iter().all(|source| u64::from(*source) < ring)
    };
    let equal = sources.windows(2).all(|pair| pair[0].len() == pair[1].len());
    let fits = sources.len() as u64 == ring && sources.iter().all(named) && equal;
    if !fits {
        cx.refuse(
            "tcp/switch-sources",
            format!("{} lists of sources for rings of {ring} slices", sources.len()),
            format!("{ring} lists, each of as many slices below {ring}, rising"),
            "one list of sources for each slice of the ring".into(),
        );
    }
    fits
}

fn describe(error: SwitchError) -> (String, String) {
    match error {
        SwitchError::NotPowerOfTwo(factor) => {
            (format!("{factor} slices are no power of two"), "powers of two".into())
        }
        SwitchError::Ring { ring_slices, slices } => (
            format!("rings of {ring_slices} slices"),
            format!("rings that divide the {slices} slices of the group"),
        ),
        SwitchError::Bitmap { ring_slices, entries } => {
            (format!("rings of {ring_slices} slices"), format!("{entries} slices that a bitmap can name"))
        }
        SwitchError::Packets { packets, multiple_of } => {
            (format!("{packets} packets a slice"), format!("a multiple of {multiple_of}"))
        }
    }
}
