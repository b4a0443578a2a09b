//! Commit unit: the valid part of each flit to the next address of a memory (paper section IV-D; vISA book,
//! commit engine). Fills and short loads write in the same way.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use smallvec::SmallVec;
use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_num::{Dtype, RuleSet, commit_relu, convert};
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::exec::{Commit, Fill, Memory, ShortLoad};

use super::fault::{ExecFault, ExecProblem, ExecStage, equal, out_of_bounds, product};
use super::packets::{Packets, load_bits, store_bits};
use super::parallel::for_each;
use super::state::{LoadTarget, MemoryState, PeGroup, SliceMemory};
use super::walk::{OffsetWalk, pairs};
use crate::byte_runs::{EvenRuns, RunSide};
use crate::limits::{MAX_SLICE, base, index, reach};
use crate::state::sizes::MemorySizes;

/// A commit whose addresses are known to lie inside the memory.
pub(super) struct CommitWriter<'a> {
    image: &'a Commit,
    base: i64,
    walk: OffsetWalk,
    /// From the first byte that is written to the last.
    extent: Range<usize>,
    /// Where runs of flits start, and flits of a run.
    runs: (OffsetWalk, u64),
    /// First bytes of all runs, if they are not too many; found when they are first asked for.
    starts: OnceLock<Option<Vec<u64>>>,
}

/// Most runs whose places are kept for all slices.
const MAX_STARTS: u64 = 1 << 14;

impl<'a> CommitWriter<'a> {
    /// Checks an image.
    pub(super) fn new(sizes: &MemorySizes, image: &'a Commit) -> Result<Self, ExecProblem> {
        if image.relu && !image.to_bf16 {
            return Err(ExecProblem::Setting("the commit unit's ReLU works on its way to bf16 only"));
        }
        let loops = pairs(&image.loops);
        let walk = OffsetWalk::new(loops.clone())?;
        let runs = OffsetWalk::runs(&loops, image.bytes)?;
        product("bytes written on a slice", [walk.left(), image.bytes], MAX_SLICE)?;
        let base = base("the base of a commit", image.base)?;
        let extent = if walk.left() == 0 { 0..0 } else { extent(sizes, image, base, &loops)? };
        Ok(CommitWriter { image, base, walk, extent, runs, starts: OnceLock::new() })
    }

    /// Flits that are written.
    pub(super) fn steps(&self) -> u64 {
        self.walk.left()
    }

    /// Whether a slice of the group writes.
    pub(super) fn writes(&self, slice: u64) -> bool {
        let ranges = &self.image.slices;
        ranges.is_empty() || ranges.iter().any(|(first, end)| (*first..*end).contains(&slice))
    }

    /// First bytes of all runs, and their bytes.
    pub(super) fn runs(&self) -> (impl Iterator<Item = u64>, usize) {
        let (base, (walk, flits)) = (self.base, self.runs.clone());
        let start = move |offset| base.exact_add(offset).unsigned_abs();
        (walk.map(start), index(flits.exact_mul(self.image.bytes)))
    }

    /// [`Self::runs`] as loops.
    pub(super) fn side(&self) -> RunSide {
        let bytes = self.runs.1.exact_mul(self.image.bytes);
        RunSide { first: self.base, loops: self.runs.0.loops().collect(), bytes }
    }

    /// What is written to the contraction engine's register file, if it is the same rows of all lanes.
    pub(super) fn target(&self, sizes: &MemorySizes) -> Option<LoadTarget> {
        let Memory::Trf { lanes } = self.image.memory else { return None };
        let written = self.walk.left().checked_mul(self.image.bytes).filter(|bytes| *bytes > 0)?;
        let from = RunSide { first: 0, loops: SmallVec::new(), bytes: written };
        LoadTarget::of(&EvenRuns::of(&from, &self.side())?, lanes, sizes.trf).map(|(target, _)| target)
    }

    /// Checks flits of so many bytes, of which those at hand may keep only the first.
    pub(super) fn check(&self, flits: &Packets, flit_bytes: usize) -> Result<(), ExecProblem> {
        equal("commit steps", self.steps(), "flits", flits.count() as u64)?;
        if flits.extra.is_some() && !matches!(self.image.memory, Memory::Trf { .. }) {
            return Err(ExecProblem::Setting("i5 and i9 are kept by the contraction register file only"));
        }
        if self.image.bytes > flit_bytes as u64 && self.steps() > 0 {
            return Err(ExecProblem::TooLarge { what: "bytes of a flit", most: flit_bytes as u64 });
        }
        Ok(())
    }

    /// Flits as they are written: to bf16 if the image says so.
    pub(super) fn convert(&self, rules: &RuleSet, flits: Packets) -> Result<Packets, ExecProblem> {
        self.check(&flits, flits.packet_bytes)?;
        if !self.image.to_bf16 {
            return Ok(flits);
        }
        let flit_bytes = flits.packet_bytes.max(1);
        let mut bytes = vec![0; flits.bytes.len()];
        for (source, target) in flits.bytes.chunks(flit_bytes).zip(bytes.chunks_mut(flit_bytes)) {
            for word in 0..flit_bytes / 4 {
                let mut pattern = load_bits(source, 32, word);
                if self.image.relu {
                    pattern = commit_relu(rules, f32::from_bits(pattern)).to_bits();
                }
                store_bits(target, 16, word, convert(rules, Dtype::F32, Dtype::Bf16, pattern)?);
            }
        }
        Ok(Packets { bytes, ..flits })
    }

    /// Writes converted flits run by run.
    pub(super) fn write(&self, sizes: &MemorySizes, memory: &mut SliceMemory, flits: &Packets) {
        if flits.extra.is_some() {
            return self.write_flits(sizes, memory, flits);
        }
        let (kept, pitch) = (index(self.image.bytes), flits.packet_bytes.max(1));
        let bytes = index(self.runs.1.exact_mul(self.image.bytes));
        let run = index(self.runs.1).exact_mul(pitch).max(1);
        let few = self.runs.0.left() <= MAX_STARTS;
        let starts = self.starts.get_or_init(|| few.then(|| self.runs().0.collect()));
        let starts = starts.as_ref().map_or_else(|| Cow::Owned(self.runs().0.collect()), Cow::Borrowed);
        let runs = starts.iter().zip(flits.bytes.chunks(run));
        if let Some(mut opened) = memory.open(sizes, self.image.memory, &self.extent) {
            runs.for_each(|(at, run)| put(opened.span(*at, bytes), run, kept, pitch));
        } else {
            runs.for_each(|(at, run)| {
                put(memory.span(sizes, self.image.memory, *at, bytes), run, kept, pitch);
            });
        }
    }

    /// Writes converted flits one by one.
    pub(super) fn write_flits(&self, sizes: &MemorySizes, memory: &mut SliceMemory, flits: &Packets) {
        let kept = index(self.image.bytes);
        let flit_bytes = flits.packet_bytes;
        for (step, offset) in self.walk.clone().enumerate() {
            let range = step * flit_bytes..step * flit_bytes + kept;
            let at = self.base.exact_add(offset).unsigned_abs();
            let bytes = flits.bytes.get(range.clone()).or_broken("a flit for each step of a commit");
            match flits.extra.as_ref().and_then(|extra| extra.get(range)) {
                Some(extra) => memory.write_extra(sizes, at, bytes, extra),
                None => memory.write(sizes, self.image.memory, at, bytes),
            }
        }
    }
}

/// From the first byte that a commit writes to the last.
fn extent(
    sizes: &MemorySizes,
    image: &Commit,
    base: i64,
    loops: &[(u64, i64)],
) -> Result<Range<usize>, ExecProblem> {
    let (memory, capacity) = sizes.of(image.memory);
    let bytes = image.bytes;
    let out = |at: i64| ExecProblem::OutOfBounds { memory, offset: at, bytes, capacity };
    let (low, high) = reach(loops.iter().copied());
    let (low, high) = (base.exact_add(low), base.exact_add(high));
    let first = u64::try_from(low).map_err(|_| out(low))?;
    let end = high.unsigned_abs().checked_add(bytes).filter(|end| *end <= capacity);
    Ok(index(first)..index(end.ok_or_else(|| out(high))?))
}

/// Writes a run of flits, so many bytes apart, to a place: the first bytes of each.
fn put(target: &mut [u8], run: &[u8], kept: usize, pitch: usize) {
    if kept == pitch {
        return copy(target, run.get(..target.len()).or_broken("a run has the flits of its place"));
    }
    for (target, flit) in target.chunks_exact_mut(kept.max(1)).zip(run.chunks_exact(pitch)) {
        copy(target, flit.get(..kept).or_broken("a flit has the bytes that are kept"));
    }
}

/// Copies as many bytes; lengths of flits and of their parts without a call.
fn copy(target: &mut [u8], source: &[u8]) {
    fn fixed<const BYTES: usize>(target: &mut [u8], source: &[u8]) {
        if let (Some(target), Some(source)) = (target.first_chunk_mut::<BYTES>(), source.first_chunk()) {
            *target = *source;
        }
    }
    match target.len() {
        4 => fixed::<4>(target, source),
        8 => fixed::<8>(target, source),
        16 => fixed::<16>(target, source),
        32 => fixed::<32>(target, source),
        _ => target.copy_from_slice(source),
    }
}

/// Writes one word, again and again, at every step of a commit.
pub(super) fn fill(state: &mut MemoryState, group: PeGroup, fill: &Fill) -> Result<(), ExecFault> {
    let sizes = state.sizes;
    let writer = CommitWriter::new(&sizes, &fill.commit).map_err(|problem| problem.at(ExecStage::Commit))?;
    if writer.steps() == 0 {
        return Ok(());
    }
    let word = fill.word.to_le_bytes();
    let bytes: Vec<u8> = word.into_iter().cycle().take(index(fill.commit.bytes)).collect();
    let work = writer.steps().capped_mul(group.slices).capped_mul(4);
    for_each(state.slices_mut(group), work, |slice, memory| {
        if writer.writes(slice as u64) {
            if fill.word == 0 && fill.commit.memory == Memory::Dm {
                let (starts, bytes) = writer.runs();
                return starts.for_each(|at| memory.clear_dm(&sizes, index(at)..index(at).exact_add(bytes)));
            }
            for offset in writer.walk.clone() {
                let at = writer.base.exact_add(offset).unsigned_abs();
                memory.write(&sizes, fill.commit.memory, at, &bytes);
            }
        }
    });
    Ok(())
}

/// Copies contiguous bytes of data memory into a register file.
pub(super) fn short(state: &mut MemoryState, group: PeGroup, short: &ShortLoad) -> Result<(), ExecFault> {
    let sizes = state.sizes;
    let check = |memory: Memory, offset: u64| {
        let (name, capacity) = sizes.of(memory);
        let inside = offset.checked_add(short.bytes).is_some_and(|end| end <= capacity);
        let problem = out_of_bounds(name, offset, short.bytes, capacity);
        if inside { Ok(()) } else { Err(problem.at(ExecStage::Commit)) }
    };
    check(Memory::Dm, short.from)?;
    check(short.memory, short.base)?;
    let from = i64::try_from(short.from).or_broken("an offset inside data memory");
    let bytes = index(short.bytes);
    for_each(state.slices_mut(group), group.slices.capped_mul(short.bytes) / 8, |_, memory| {
        memory.copy_from_dm(&sizes, short.memory, from, short.base, bytes);
    });
    Ok(())
}
