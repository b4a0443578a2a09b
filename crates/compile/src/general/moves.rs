//! Loops over elements as transfers of the DMA engine: packets as long as neighbours are neighbours on both
//! sides, as many loops as the engine has (vISA book, DMA engine).

use tilewright_base::Span;
use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::image::transfer::{HbmUse, TransferCost};
use tilewright_tcp_cost::cycles::image::transfer_cost;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::transfer::{Address, MemoryInstance, SLICE_STRIDE, Transfer, TransferLoop};

use super::view::signed;

/// Bytes that go from one place to another: loops of size and of strides in bytes at both ends, and what is
/// contiguous inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// First byte read.
    pub source: Address,
    /// First byte written.
    pub target: Address,
    /// Outermost first.
    pub loops: Vec<(u64, i64, i64)>,
    /// Contiguous bytes inside.
    pub inside: u64,
}

/// Transfers that move them.
pub fn transfers(machine: &Tcp, name: &str, bytes: &Bytes) -> Vec<Transfer> {
    let parts = packets(machine, &simple(bytes)).into_iter();
    let parts = parts.flat_map(|part| short(machine, part)).flat_map(|part| few(machine, part));
    parts.enumerate().map(|(number, part)| in_order(machine, transfer(name, &part, number))).collect()
}

/// The same with its loops as they are or by their steps in HBM, the shortest innermost, whichever takes
/// less: packets that are far apart by turns may open another row of the same bank each time.
fn in_order(machine: &Tcp, transfer: Transfer) -> Transfer {
    let is_hbm = [transfer.source, transfer.target]
        .map(|end: Address| end.locate().is_some_and(|found| found.medium == MemoryInstance::Hbm));
    let steps = |row: &TransferLoop| {
        let far = |is_hbm: bool, step: i64| if is_hbm { step.unsigned_abs() } else { 0 };
        far(is_hbm[0], row.source).max(far(is_hbm[1], row.target))
    };
    let mut sorted = transfer.clone();
    sorted.loops.sort_by_key(|row| std::cmp::Reverse(steps(row)));
    if sorted.loops == transfer.loops {
        return transfer;
    }
    let pes = machine.pes();
    let cycles = |one: &Transfer| {
        let cost = transfer_cost(machine, one)?;
        Some(cost.cycles.total_cycles.max(hbm_cycles(&cost) * pes))
    };
    match (cycles(&transfer), cycles(&sorted)) {
        (Some(as_is), Some(by_steps)) if by_steps < as_is => sorted,
        _ => transfer,
    }
}

fn transfer(name: &str, bytes: &Bytes, number: usize) -> Transfer {
    let name = if number == 0 { name.to_string() } else { format!("{name}_{number}") };
    let row = |(size, source, target): &(u64, i64, i64)| TransferLoop {
        size: Count::Fixed(*size),
        source: *source,
        target: *target,
    };
    Transfer {
        name,
        source: bytes.source,
        target: bytes.target,
        loops: bytes.loops.iter().map(row).collect(),
        packet: bytes.inside,
        index: None,
        span: Span::default(),
    }
}

/// The same without loops that run once, neighbours joined, and the contiguous part as long as it gets.
fn simple(bytes: &Bytes) -> Bytes {
    let mut loops: Vec<(u64, i64, i64)> = Vec::new();
    for (size, source, target) in bytes.loops.iter().copied().filter(|row| row.0 != 1) {
        let next = signed(size);
        match loops.last_mut() {
            Some(outer) if outer.1 == source * next && outer.2 == target * next => {
                *outer = (outer.0 * size, source, target);
            }
            _ => loops.push((size, source, target)),
        }
    }
    let mut inside = bytes.inside;
    while let Some((size, source, target)) = loops.last().copied() {
        if (source, target) != (signed(inside), signed(inside)) {
            break;
        }
        inside *= size;
        loops.pop();
    }
    Bytes { loops, inside, ..bytes.clone() }
}

/// The same so many bytes on at both ends.
fn moved(bytes: &Bytes, source: i64, target: i64) -> Bytes {
    let step = |from: Address, by: i64| from.step(by).unwrap_or(from);
    Bytes { source: step(bytes.source, source), target: step(bytes.target, target), ..bytes.clone() }
}

/// Contiguous bytes in packets that the engine has: of one length, and what is left.
fn packets(machine: &Tcp, bytes: &Bytes) -> Vec<Bytes> {
    let most = machine.tdma.packet_max_bytes.max(1);
    if bytes.inside <= most {
        return vec![bytes.clone()];
    }
    // Requests start where packets do: of whole access units none is split by HBM.
    let sizes = |unit: u64| (1..=most / unit).rev().map(move |units| units * unit);
    let whole = |packet: &u64| bytes.inside.is_multiple_of(*packet);
    let unit = machine.hbm.access_bytes.clamp(1, most);
    let packet = if bytes.inside.is_multiple_of(unit) {
        sizes(unit).take_while(|packet| *packet * 8 > most).find(whole).unwrap_or(most / unit * unit)
    } else {
        let granule = machine.tdma.alignment_bytes.max(1);
        sizes(granule).take_while(|packet| *packet * 4 > most).find(whole).unwrap_or(most)
    };
    let mut whole = Bytes { inside: packet, ..bytes.clone() };
    whole.loops.push((bytes.inside / packet, signed(packet), signed(packet)));
    let done = bytes.inside / packet * packet;
    let mut all = vec![whole];
    if done < bytes.inside {
        all.push(Bytes { inside: bytes.inside - done, ..moved(bytes, signed(done), signed(done)) });
    }
    all
}

/// Loops that the sequencer counts.
fn short(machine: &Tcp, bytes: Bytes) -> Vec<Bytes> {
    let long = bytes.loops.iter().position(|row| row.0 > machine.sequencer.entry_size_max);
    let Some(at) = long else { return vec![bytes] };
    let (size, source, target) = bytes.loops[at];
    let part = |size: u64, skip: u64| {
        let mut part = moved(&bytes, source * signed(skip), target * signed(skip));
        part.loops[at].0 = size;
        part
    };
    let halves = [part(size / 2, 0), part(size - size / 2, size / 2)];
    halves.into_iter().flat_map(|half| short(machine, half)).collect()
}

/// As many loops as the engine has.
fn few(machine: &Tcp, bytes: Bytes) -> Vec<Bytes> {
    if bytes.loops.len() as u64 <= machine.tdma.loops {
        return vec![bytes];
    }
    let (size, source, target) = bytes.loops[0];
    let part = |at: u64| {
        let mut part = moved(&bytes, source * signed(at), target * signed(at));
        part.loops.remove(0);
        part
    };
    (0..size).map(part).flat_map(|part| few(machine, part)).collect()
}

/// The same as several transfers of at most so many bytes each, as far as its loops can be cut: others may
/// come between them.
pub(super) fn pieces(transfer: Transfer, most_bytes: u64) -> Vec<Transfer> {
    let sizes = transfer.loops.iter().map(|row| row.size.fixed());
    let bytes = sizes.fold(transfer.packet, |all, size| all * size);
    // Slices stay together: neighbours have networks of their own.
    let inside = |row: &TransferLoop| row.size.fixed() > 1 && row.target.abs() < SLICE_STRIDE;
    let wide = transfer.loops.iter().position(inside);
    let (Some(at), true) = (wide, bytes > most_bytes && transfer.index.is_none()) else {
        return vec![transfer];
    };
    let size = transfer.loops[at].size.fixed();
    let each = size.div_ceil(bytes.div_ceil(most_bytes).min(size));
    let piece = |first: u64| {
        let row = transfer.loops[at];
        let mut piece = transfer.clone();
        piece.source = transfer.source.step(row.source * signed(first))?;
        piece.target = transfer.target.step(row.target * signed(first))?;
        piece.loops[at].size = Count::Fixed(each.min(size - first));
        piece.loops.retain(|row| row.size.fixed() > 1);
        if first > 0 {
            piece.name = format!("{}_{}", transfer.name, first / each);
        }
        Some(piece)
    };
    let all: Option<Vec<Transfer>> = (0..size.div_ceil(each)).map(|number| piece(number * each)).collect();
    all.unwrap_or_else(|| vec![transfer])
}

/// The same, or where many slices take the same bytes of HBM: those to one slice, and from there to the
/// others. What so many PEs ask of a few channels comes one after the other, which copies between slices do
/// not. For no PE the transfer stays as it is.
pub(super) fn once_from_hbm(machine: &Tcp, transfer: Transfer, sharing: u64) -> Vec<Transfer> {
    let cycles = |one: &Transfer| {
        let cost = transfer_cost(machine, one)?;
        let busiest = cost.read.as_ref().map_or(0, |side| side.busiest_q32 >> 32);
        Some(u128::from(cost.cycles.total_cycles).max(busiest * u128::from(sharing)))
    };
    let staged = || {
        let [first, copies] = staged(&transfer).filter(|_| sharing > 0)?;
        let both = cycles(&first)? + cycles(&copies)?;
        (both < cycles(&transfer)?).then_some([first, copies])
    };
    match staged() {
        Some([first, copies]) => {
            let mut all = once_from_hbm(machine, first, sharing);
            all.push(copies);
            all
        }
        None => vec![transfer],
    }
}

/// A transfer from HBM to the first of the slices that take the same, and one from there to the others.
fn staged(transfer: &Transfer) -> Option<[Transfer; 2]> {
    let medium = |end: Address| Some(end.locate()?.medium);
    let inward = medium(transfer.source)? == MemoryInstance::Hbm
        && matches!(medium(transfer.target)?, MemoryInstance::Dm { .. });
    let alike = |row: &&TransferLoop| row.source == 0 && row.target.abs() >= SLICE_STRIDE;
    let most = transfer.loops.iter().filter(alike).map(|row| row.size.fixed()).max()?;
    if !inward || most < 2 || transfer.index.is_some() {
        return None;
    }
    let at = transfer.loops.iter().position(|row| alike(&row) && row.size.fixed() == most)?;
    let mut first = transfer.clone();
    let taken = first.loops.remove(at);
    let mut copies = transfer.clone();
    copies.name = "spread".to_string();
    copies.source = transfer.target;
    copies.target = transfer.target.step(taken.target)?;
    copies.loops.iter_mut().for_each(|row| row.source = row.target);
    copies.loops[at] = TransferLoop { size: Count::Fixed(most - 1), source: 0, target: taken.target };
    copies.loops.retain(|row| row.size.fixed() > 1);
    Some([first, copies])
}

/// Cycles that a transfer keeps channels of HBM busy, on average over all of them: as much is gone for
/// others.
pub(super) fn hbm_cycles(cost: &TransferCost) -> u64 {
    let of_side = |side: &HbmUse| match side.channels_q32.len() as u128 {
        0 => side.busiest_q32,
        count => side.channels_q32.iter().sum::<u128>() / count,
    };
    let busy: u128 = [&cost.read, &cost.written].into_iter().flatten().map(of_side).sum();
    u64::try_from(busy >> 32).or_broken("cycles of a transfer fit 64 bits")
}

#[cfg(test)]
mod tests {
    use tilewright_tcp_isa::program::transfer::MemoryLocation;

    use super::super::emit::hbm;
    use super::*;

    fn copied(inside: u64) -> Transfer {
        let medium = MemoryInstance::Dm { slice: 0 };
        let target = Address::new(MemoryLocation { chip: 0, medium, offset: 512 });
        let loops = vec![(64, 0, SLICE_STRIDE)];
        let bytes = Bytes { source: hbm(4096), target, loops, inside };
        transfers(&tilewright_testkit::tcp(), "bring", &bytes).remove(0)
    }

    #[test]
    fn short_runs_that_slices_read_alike_come_from_hbm_once() {
        let machine = tilewright_testkit::tcp();
        let all = once_from_hbm(&machine, copied(576), 8);
        let [first, copies] = &all[..] else { panic!("{all:?}") };
        assert!(first.loops.is_empty());
        assert_eq!((copies.source, copies.loops[0].size), (first.target, Count::Fixed(63)));
        // One PE alone waits longer for copies of long runs than for HBM.
        assert_eq!(once_from_hbm(&machine, copied(4096), 1).len(), 1);
        assert_eq!(once_from_hbm(&machine, copied(576), 0).len(), 1);
    }
}
