//! Commands that overwrite what they read later themselves.
//!
//! Engines are pipelines. A tensor unit command reads packet after packet while it commits what became of
//! earlier ones, and a DMA engine reads packets ahead of those that it writes: a packet that is written where
//! it was read, or where an earlier one was, disturbs nothing; one that is written where a later one is still
//! to be read gives values that depend on how far the engine has got. Writes of one command happen in the
//! order of its loops.

use std::collections::BTreeMap;

use tilewright_machine::tcp::Tcp;

use super::exec::units;
use super::{Footprint, MemoryAccess, MemoryKind};
use crate::capped::{Capped, capped};
use crate::program::exec::{Commit, Exec, ExecBody, Fetch, Loop, Memory, Stream};
use crate::program::transfer::Transfer;

/// Steps that one command is followed for; a longer one is taken to disturb itself, without being certain.
const MAX_STEPS: u64 = 1 << 22;

/// What a command overwrites before it reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfOverlap {
    /// Kind of memory.
    pub memory: MemoryKind,
    /// Chip.
    pub chip: u64,
    /// First slice of the chip that it happens on; PE for a scratchpad.
    pub slice: u64,
    /// First byte that is overwritten too early, and one past the run.
    pub bytes: (u64, u64),
    /// First byte that the command reads there, and one past the last.
    pub read: (u64, u64),
    /// First byte that the command writes there, and one past the last.
    pub written: (u64, u64),
    /// Whether the order was followed step by step.
    pub certain: bool,
}

/// What a resolved tensor unit command with this footprint overwrites before it reads it.
pub fn of_exec_image(exec: &Exec, footprint: &Footprint) -> Option<SelfOverlap> {
    let ExecBody::Stream(stream) = &exec.body else { return None };
    overlaps(footprint).find_map(|(read, write)| {
        if read.memory == MemoryKind::Dm && read.bytes.is_exact() {
            return streamed(stream, read, write);
        }
        // What a table of the fetch unit leads to is not known before the run.
        let known = read.bytes.is_exact() && write.bytes.is_exact();
        found(read, write, read.bytes.overlap(&write.bytes).filter(|_| known)?, false)
    })
}

/// What a resolved transfer with this footprint overwrites before it reads it. Where a table says which rows
/// move, nothing is known before the run.
pub fn of_transfer_image(machine: &Tcp, transfer: &Transfer, footprint: &Footprint) -> Option<SelfOverlap> {
    if transfer.index.is_some() {
        return None;
    }
    let (read, write) = overlaps(footprint).next()?;
    let whole = || found(read, write, read.bytes.overlap(&write.bytes)?, false);
    let sizes: Vec<u64> = transfer.loops.iter().map(|row| row.size.fixed()).collect();
    if steps(&sizes) > MAX_STEPS {
        return whole();
    }
    let side = |base: u64, stride: fn(&crate::program::transfer::TransferLoop) -> i64| {
        let strides: Vec<i64> = transfer.loops.iter().map(stride).collect();
        Offsets::new(&sizes, &strides).map(move |offset| i128::from(base) + offset).collect::<Vec<i128>>()
    };
    let sources = side(transfer.source.0, |row| row.source);
    let targets = side(transfer.target.0, |row| row.target);
    let packet = i128::from(transfer.packet);
    let last_read: BTreeMap<i128, usize> = sources.iter().copied().zip(0..).collect();
    let early = targets.iter().enumerate().find_map(|(at, target)| {
        let near = last_read.range(target - packet + 1..target + packet);
        near.filter(|(_, read_at)| **read_at > at).map(|(start, _)| *target.max(start)).next()
    })?;
    let place = crate::program::transfer::Address(u64::try_from(early).ok()?).locate()?;
    let site = super::transfer::site_of(place, true);
    let meets = |(read, write): &(&MemoryAccess, &MemoryAccess)| {
        let here = |access: &MemoryAccess| {
            (access.memory, access.chip) == (site.memory, site.chip)
                && access.slices.0 <= site.slices.0
                && site.slices.0 < access.slices.1
        };
        here(read) && here(write)
    };
    let (read, write) = overlaps(footprint).find(meets)?;
    let end = place.offset.capped_add(1).min(site.memory.capacity_bytes(machine));
    let run = write.bytes.runs().iter().find(|run| run.0 <= place.offset && place.offset < run.1);
    let end = run.map_or(end, |run| run.1.min(place.offset.capped_add(transfer.packet)));
    let certain = read.bytes.is_exact() && write.bytes.is_exact();
    let overlap = found(read, write, (place.offset, end), certain)?;
    Some(SelfOverlap { slice: site.slices.0, ..overlap })
}

/// Reads and writes of a footprint that share bytes.
fn overlaps(footprint: &Footprint) -> impl Iterator<Item = (&MemoryAccess, &MemoryAccess)> {
    let all = &footprint.accesses;
    let writes = move |read| all.iter().filter(|access| access.write).map(move |write| (read, write));
    let pairs = all.iter().filter(|access| !access.write).flat_map(writes);
    pairs.filter(|(read, write)| read.meets(write) && read.bytes.overlap(&write.bytes).is_some())
}

fn found(read: &MemoryAccess, write: &MemoryAccess, bytes: (u64, u64), certain: bool) -> Option<SelfOverlap> {
    Some(SelfOverlap {
        memory: read.memory,
        chip: read.chip,
        slice: read.slices.0.max(write.slices.0),
        bytes,
        read: read.bytes.bounds()?,
        written: write.bytes.bounds()?,
        certain,
    })
}

/// Packets of the fetch unit against flits of the commit unit, on one slice: flit `k` of `W` leaves once
/// `(k + 1) / W` of all packets were read. What sums over packets or turns tiles leaves later than that.
fn streamed(stream: &Stream, read: &MemoryAccess, write: &MemoryAccess) -> Option<SelfOverlap> {
    let overlap = read.bytes.overlap(&write.bytes)?;
    if stream.commit.memory != Memory::Dm {
        return None;
    }
    let proportional = stream.contract.is_none() && stream.transpose.is_none();
    let (fetched, committed) = (sizes(&stream.fetch.loops), sizes(&stream.commit.loops));
    if steps(&fetched) > MAX_STEPS || steps(&committed) > MAX_STEPS {
        return found(read, write, overlap, false);
    }
    let last_read = last_packets(&stream.fetch, read);
    let packets = (steps(&fetched) / stream.fetch.packet.max(1)).max(1);
    let flits = steps(&committed).max(1);
    let bytes = first_early(&stream.commit, &last_read, |flit| {
        let so_far = (u128::from(flit) + 1) * u128::from(packets);
        capped(so_far.div_ceil(u128::from(flits)))
    })?;
    found(read, write, bytes, proportional)
}

/// For each byte that is read, how many packets are fetched once it was read for the last time.
fn last_packets(fetch: &Fetch, read: &MemoryAccess) -> BTreeMap<u64, u64> {
    let (element, per_byte) = units(fetch.dtype);
    let (element, per_byte) = (i128::from(element), i128::from(per_byte));
    let mut strides: Vec<i64> = fetch.loops.iter().map(|row| row.stride).collect();
    let mut second = 0;
    if let Some(pair) = fetch.interleave
        && let Some(stride) = strides.get_mut(pair.at_loop)
    {
        *stride = 0;
        second = i128::from(pair.base) - i128::from(fetch.base);
    }
    let sizes = sizes(&fetch.loops);
    let is_second = |step: u64| {
        let pair = fetch.interleave?;
        let inner = sizes.get(pair.at_loop.checked_add(1)?..)?;
        Some(step / steps(inner).max(1) % 2 == 1)
    };
    let mut last = BTreeMap::new();
    for (step, offset) in (0_u64..).zip(Offsets::new(&sizes, &strides)) {
        let base = i128::from(fetch.base) + if is_second(step) == Some(true) { second } else { 0 };
        let first = (base * per_byte + offset * element).div_euclid(per_byte);
        let end = (base * per_byte + (offset + 1) * element + per_byte - 1).div_euclid(per_byte);
        for byte in (first..end).filter_map(|byte| u64::try_from(byte).ok()) {
            last.insert(byte, step / fetch.packet.max(1) + 1);
        }
    }
    // Elements that limits cut off are not read.
    last.retain(|byte, _| read.bytes.runs().iter().any(|run| run.0 <= *byte && *byte < run.1));
    last
}

/// The first bytes that a commit writes while packets that hold them are still to be fetched; `fetched` says
/// how many packets are, once a flit leaves.
fn first_early(
    commit: &Commit,
    last_read: &BTreeMap<u64, u64>,
    fetched: impl Fn(u64) -> u64,
) -> Option<(u64, u64)> {
    let strides: Vec<i64> = commit.loops.iter().map(|row| row.stride).collect();
    let sizes = sizes(&commit.loops);
    let places = Offsets::new(&sizes, &strides);
    (0_u64..).zip(places).find_map(|(flit, offset)| {
        let start = u64::try_from(i128::from(commit.base) + offset).ok()?;
        let end = start.capped_add(commit.bytes);
        let mut early = last_read.range(start..end).filter(|(_, packets)| **packets > fetched(flit));
        early.next().map(|(byte, _)| (*byte, end))
    })
}

fn sizes(loops: &[Loop]) -> Vec<u64> {
    loops.iter().map(|row| row.size.fixed()).collect()
}

fn steps(sizes: &[u64]) -> u64 {
    sizes.iter().fold(1, |all, size| all.capped_mul(*size))
}

/// Offsets of nested loops from their base, in order, outermost loop first.
struct Offsets<'a> {
    sizes: &'a [u64],
    strides: Vec<i64>,
    at: Vec<u64>,
    left: u64,
}

impl<'a> Offsets<'a> {
    fn new(sizes: &'a [u64], strides: &[i64]) -> Offsets<'a> {
        Offsets { sizes, strides: strides.to_vec(), at: vec![0; sizes.len()], left: steps(sizes) }
    }
}

impl Iterator for Offsets<'_> {
    type Item = i128;

    fn next(&mut self) -> Option<i128> {
        self.left = self.left.checked_sub(1)?;
        let terms = self.at.iter().zip(&self.strides);
        let offset = terms.map(|(at, stride)| i128::from(*at) * i128::from(*stride)).sum();
        for (at, size) in self.at.iter_mut().zip(self.sizes).rev() {
            *at += 1;
            if *at < *size {
                break;
            }
            *at = 0;
        }
        Some(offset)
    }
}
