//! Transfers drawn from a seed: routes, loops and strides that meet channels, banks and rows in every way.

use tilewright_base::{Span, random};
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, SLICE_STRIDE, Transfer, TransferLoop,
};

const PACKETS_BYTES: [u64; 11] = [16, 64, 128, 256, 256, 256, 512, 1024, 1600, 2048, 4096];
/// Requests of a drawn transfer.
const REQUESTS: u64 = 3000;
/// Bytes of HBM within which both sides lie.
const REACH_BYTES: u64 = 1 << 30;

/// The transfer of a seed: up to four loops over HBM on one side or both; data memory alternates networks.
pub fn transfer(machine: &Tcp, seed: u64) -> Transfer {
    let mut state = seed;
    let packet = PACKETS_BYTES[pick(&mut state, PACKETS_BYTES.len())];
    let (reads, writes) = [(true, false), (true, false), (false, true), (true, true)][pick(&mut state, 4)];
    let mut room = REQUESTS / packet.div_ceil(machine.tdma.request_bytes.max(1));
    let (mut loops, mut reach_bytes) = (Vec::new(), REACH_BYTES / 4);
    for _ in 0..1 + pick(&mut state, 4) {
        let size = (1 << pick(&mut state, 8)).min(room).max(1);
        room /= size;
        let hbm_bytes = stride(&mut state, packet, reach_bytes / size);
        let other_bytes = stride(&mut state, packet, reach_bytes / size);
        reach_bytes -= (hbm_bytes.max(other_bytes) * (size - 1)).min(reach_bytes);
        loops.push((size, hbm_bytes, other_bytes));
    }
    let network = SLICE_STRIDE * (machine.pe.slices / machine.pe.dmns.max(1)).cast_signed();
    let rows = loops.iter().enumerate().map(|(at, &(size, hbm_bytes, other_bytes))| {
        let [hbm_bytes, other_bytes] = [hbm_bytes, other_bytes].map(u64::cast_signed);
        let data_memory = if at + 1 == loops.len() { packet.cast_signed() } else { 0 };
        let source = if reads { hbm_bytes } else { data_memory };
        let target = if !writes {
            data_memory
        } else if reads {
            other_bytes
        } else {
            hbm_bytes
        };
        TransferLoop { size: Count::Fixed(size), source, target }
    });
    let mut rows: Vec<TransferLoop> = rows.collect();
    // The innermost of two steps goes to the other network, as the book advises.
    let pair = |hbm_bytes: i64| {
        let (source, target) = match (reads, writes) {
            (true, true) => (hbm_bytes, hbm_bytes),
            (true, false) => (hbm_bytes, network),
            _ => (network, hbm_bytes),
        };
        TransferLoop { size: Count::Fixed(2), source, target }
    };
    rows.push(pair(stride(&mut state, packet, reach_bytes).cast_signed()));
    let aligned = pick(&mut state, 4) > 0;
    let base = |state: &mut u64| {
        let at = random::below(state, REACH_BYTES / 4);
        at - at % if aligned { machine.hbm.access_bytes } else { 16 }
    };
    let hbm = |offset| Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Hbm, offset });
    let dm = Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Dm { slice: 0 }, offset: 0 });
    let source = if reads { hbm(base(&mut state)) } else { dm };
    let target = if writes { hbm(REACH_BYTES + base(&mut state)) } else { dm };
    Transfer { name: "drawn".into(), source, target, loops: rows, packet, index: None, span: Span::default() }
}

/// A run of packets, a power of two, a multiple of it, or none.
fn stride(state: &mut u64, packet: u64, most: u64) -> u64 {
    let power = 1 << (8 + pick(state, 18));
    let drawn = match pick(state, 6) {
        0 | 1 => packet,
        2 | 3 => power,
        4 => power * (1 + pick(state, 7) as u64),
        _ => 0,
    };
    if drawn > most { packet.min(most) } else { drawn }
}

fn pick(state: &mut u64, end: usize) -> usize {
    usize::try_from(random::below(state, end as u64)).unwrap_or(0)
}
