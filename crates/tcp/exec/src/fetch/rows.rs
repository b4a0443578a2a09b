//! Fetch in bulk: the sequence as rows, each one loop of neighbours or of even steps; rows are copied, then
//! all elements pass the adapter together. Gives what the sequencer gives element by element.

use smallvec::SmallVec;
use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_num::Dtype;
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::memory::payload_bits;
use tilewright_tcp_isa::program::exec::{Fetch, Limit};

use super::{Fetcher, byte_of, origin, read_element, table_offset};
use crate::byte_runs::RunSide;
use crate::convert::convert_slice;
use crate::fault::ExecProblem;
use crate::limits::{checked_base, index};
use crate::packets::{Packets, store_bits, store_element};
use crate::walk::OffsetWalk;

/// A fetch as rows.
pub(crate) struct FetchRows {
    /// Where rows start, in elements.
    walk: OffsetWalk,
    /// Elements of a row, and from one to the next.
    size: u64,
    stride: i64,
    /// What an iteration of each of the walk's loops is worth, for each limit.
    outer_weights: SmallVec<[SmallVec<[u64; 8]>; 1]>,
    /// What the next element of a row is worth, for each limit.
    weights: SmallVec<[u64; 2]>,
    /// Places of the loops with bases of their own among the walk's.
    interleave: Option<usize>,
    indirect: Option<usize>,
    /// Results for all bytes read, where a table or a zero point decides them.
    table: Option<Vec<Result<u32, ExecProblem>>>,
    /// First bytes of all rows that are runs, where they are the same on every slice.
    firsts: Option<Vec<i64>>,
}

/// Most rows whose places are kept for all slices.
const MAX_FIRSTS: u64 = 1 << 14;

/// Loops joined.
struct JoinedLoops {
    size: u64,
    stride: i64,
    weights: SmallVec<[u64; 2]>,
    special: Option<usize>,
}

impl FetchRows {
    /// `None` where elements or packets are no whole bytes.
    pub(super) fn new(fetcher: &Fetcher<'_>) -> Option<FetchRows> {
        let image = fetcher.image;
        let whole = |dtype: Dtype| image.packet.exact_mul(payload_bits(dtype)).is_multiple_of(8);
        if fetcher.bits < 8 || !whole(image.dtype) || !whole(image.leaves()) {
            return None;
        }
        let tabled = image.lookup.is_some() || image.zero_point.is_some();
        let short = image.lookup.as_ref().is_some_and(|lookup| lookup.patterns.len() < 256);
        let odd = matches!(image.cast, Some(Dtype::I5 | Dtype::I9));
        // A masked element is not looked up, so that it cannot be missing.
        if odd || (tabled && (fetcher.bits != 8 || (short && !image.limits.is_empty()))) {
            return None;
        }
        let mut joined = joined(fetcher, image)?;
        let row = joined.pop()?;
        let walk = OffsetWalk::new(joined.iter().map(|row| (row.size, row.stride)).collect()).ok()?;
        let at = |special: Option<usize>| {
            special.and_then(|wanted| joined.iter().position(|row| row.special == Some(wanted)))
        };
        let outer = |limit: usize| joined.iter().map(|row| row.weights[limit]).collect();
        let mut rows = FetchRows {
            walk,
            size: row.size,
            stride: row.stride,
            outer_weights: (0..image.limits.len()).map(outer).collect(),
            weights: row.weights,
            interleave: at(image.interleave.map(|interleave| interleave.at_loop)),
            indirect: at(image.indirect.map(|indirect| indirect.at_loop)),
            table: tabled.then(|| (0..256).map(|read| fetcher.adapt(read)).collect()),
            firsts: None,
        };
        rows.firsts = rows.same_firsts(image, fetcher.bits);
        Some(rows)
    }

    /// First bytes of all rows, if they are the same on every slice and rows are runs.
    fn same_firsts(&self, image: &Fetch, bits: u64) -> Option<Vec<i64>> {
        let same = image.limits.is_empty() && image.indirect.is_none() && self.walk.left() <= MAX_FIRSTS;
        if !same || (self.stride != 1 && self.size > 1) {
            return None;
        }
        let mut firsts = Vec::with_capacity(index(self.walk.left()));
        let mut walk = self.walk.clone();
        while let Some(offset) = walk.offset() {
            firsts.push(first_byte(self.start(image, &[], walk.index(), offset), bits));
            walk.advance();
        }
        Some(firsts)
    }

    /// Whether bytes pass unchanged.
    pub(crate) fn is_plain(&self, image: &Fetch) -> bool {
        image.limits.is_empty()
            && image.interleave.is_none()
            && image.indirect.is_none()
            && self.table.is_none()
            && image.cast.is_none_or(|cast| cast == image.dtype)
    }

    /// First byte and length of every row, if rows are runs of bytes.
    pub(crate) fn runs(&self, image: &Fetch) -> Option<(impl Iterator<Item = i64>, usize)> {
        if self.stride != 1 && self.size != 1 {
            return None;
        }
        let width = (payload_bits(image.dtype) / 8).cast_signed();
        let base = checked_base(image.base);
        let first = move |offset: i64| base.exact_add(offset.exact_mul(width));
        Some((self.walk.clone().map(first), index(self.size.exact_mul(width.unsigned_abs()))))
    }

    /// [`Self::runs`] as loops.
    pub(crate) fn side(&self, image: &Fetch) -> Option<RunSide> {
        if self.stride != 1 && self.size != 1 {
            return None;
        }
        let width = payload_bits(image.dtype) / 8;
        let bytes = |(size, stride): (u64, i64)| Some((size, stride.checked_mul(width.cast_signed())?));
        let loops = self.walk.loops().map(bytes).collect::<Option<_>>()?;
        Some(RunSide { first: i64::try_from(image.base).ok()?, loops, bytes: self.size.checked_mul(width)? })
    }

    /// All packets of a slice of the group.
    pub(super) fn fetch(&self, fetcher: &Fetcher<'_>, dm: &[u8], slice: u64) -> Result<Packets, ExecProblem> {
        let image = fetcher.image;
        let width = index(fetcher.bits / 8);
        let elements = index(fetcher.packets.exact_mul(image.packet));
        let mut bytes = Vec::with_capacity(elements.exact_mul(width));
        if let Some(firsts) = &self.firsts {
            let length = index(self.size).exact_mul(width);
            firsts.iter().for_each(|first| super::push_run(&mut bytes, dm, *first, length));
            return self.adapt(fetcher, bytes, elements, &[]);
        }
        let mut dead: Vec<(usize, usize)> = Vec::new();
        let origins: SmallVec<[u64; 2]> = image.limits.iter().map(|limit| origin(limit, slice)).collect();
        let mut walk = self.walk.clone();
        while let Some(offset) = walk.offset() {
            let start = self.start(image, dm, walk.index(), offset);
            let live = self.live(image, walk.index(), &origins);
            let from = bytes.len();
            self.push_row(&mut bytes, dm, start, live, fetcher.bits);
            bytes.resize(from + index(self.size) * width, 0);
            if live < self.size {
                dead.push((from / width + index(live), from / width + index(self.size)));
            }
            walk.advance();
        }
        self.adapt(fetcher, bytes, elements, &dead)
    }

    /// Base and offset of a row's first element, in bytes and elements.
    fn start(&self, image: &Fetch, dm: &[u8], at: &[u64], offset: i64) -> (u64, i64) {
        let second = |place: usize| at.get(place) == Some(&1);
        let other = image.interleave.filter(|_| self.interleave.is_some_and(second));
        let base = other.map_or(image.base, |interleave| interleave.base);
        let row = image.indirect.map_or(0, |indirect| {
            let at = self.indirect.and_then(|place| at.get(place));
            table_offset(image, indirect, dm, *at.or_broken("the loop of a table is kept apart"))
        });
        (base, offset.exact_add(row))
    }

    /// Elements at the front of a row that no limit excludes.
    fn live(&self, image: &Fetch, at: &[u64], origins: &[u64]) -> u64 {
        let mut live = self.size;
        let limits = image.limits.iter().zip(origins);
        for ((limit, origin), (outer, own)) in limits.zip(self.outer_weights.iter().zip(&self.weights)) {
            let parts = at.iter().zip(outer).map(|(index, weight)| index.capped_mul(*weight));
            let first = parts.fold(*origin, u64::capped_add);
            live = match (limit.extent.fixed().checked_sub(first), own) {
                (None | Some(0), _) => 0,
                (Some(_), 0) => live,
                (Some(left), weight) => live.min(left.div_ceil(*weight)),
            };
        }
        live
    }

    fn push_row(&self, bytes: &mut Vec<u8>, dm: &[u8], (base, offset): (u64, i64), live: u64, bits: u64) {
        let width = (bits / 8).cast_signed();
        let first = first_byte((base, offset), bits);
        if self.stride == 1 || live <= 1 {
            super::push_run(bytes, dm, first, index(live.exact_mul(width.unsigned_abs())));
            return;
        }
        let step = self.stride.exact_mul(width);
        let last = first.exact_add(step.exact_mul(live.exact_sub(1).cast_signed()));
        let end = first.max(last).exact_add(width);
        let inside = first.min(last) >= 0 && u64::try_from(end).is_ok_and(|end| end <= dm.len() as u64);
        let mut at = offset;
        if !inside {
            for _ in 0..live {
                let from = bytes.len();
                bytes.resize(from + index(bits / 8), 0);
                store_bits(&mut bytes[from..], bits, 0, read_element(dm, bits, base, at));
                at = at.exact_add(self.stride);
            }
            return;
        }
        let start = usize::try_from(first).or_broken("rows that are inside begin inside");
        let step = isize::try_from(step).or_broken("steps inside data memory");
        match width {
            1 => push_steps::<1>(bytes, dm, start, step, live),
            2 => push_steps::<2>(bytes, dm, start, step, live),
            _ => push_steps::<4>(bytes, dm, start, step, live),
        }
    }

    /// The adapter for all elements; those that a limit excludes leave as zeros.
    fn adapt(
        &self,
        fetcher: &Fetcher<'_>,
        bytes: Vec<u8>,
        elements: usize,
        dead: &[(usize, usize)],
    ) -> Result<Packets, ExecProblem> {
        let (image, leaves) = (fetcher.image, fetcher.image.leaves());
        let packet_bytes = index(fetcher.packet_bytes);
        if let Some(table) = &self.table {
            let size = elements * index(payload_bits(leaves)) / 8;
            let mut packets = Packets { bytes: vec![0; size], extra: None, packet_bytes };
            let mut dead = dead.iter().copied().peekable();
            for (at, byte) in bytes.iter().enumerate() {
                while dead.next_if(|(_, end)| *end <= at).is_some() {}
                if dead.peek().is_some_and(|(first, _)| *first <= at) {
                    continue;
                }
                let pattern = table.get(usize::from(*byte)).or_broken("the table has 256 entries").clone()?;
                store_element(leaves, &mut packets, at, pattern);
            }
            return Ok(packets);
        }
        let mut bytes = match image.cast {
            None => bytes,
            Some(cast) => convert_slice(fetcher.rules, image.dtype, cast, elements, &bytes)?,
        };
        let bits = index(payload_bits(leaves));
        for (first, end) in dead {
            if bits < 8 {
                (*first..*end).for_each(|at| store_bits(&mut bytes, 4, at, 0));
            } else {
                let part = bytes.get_mut(first * bits / 8..end * bits / 8);
                part.or_broken("masked elements are fetched too").fill(0);
            }
        }
        Ok(Packets { bytes, extra: None, packet_bytes })
    }
}

/// The first byte of a row that starts so many elements from a byte on.
fn first_byte((base, offset): (u64, i64), bits: u64) -> i64 {
    checked_base(base).exact_add(byte_of(bits, offset))
}

/// Appends elements at even steps, all of them inside.
fn push_steps<const WIDTH: usize>(bytes: &mut Vec<u8>, dm: &[u8], first: usize, step: isize, count: u64) {
    let mut at = first;
    for _ in 0..count {
        let element = dm.get(at..).and_then(|rest| rest.first_chunk::<WIDTH>());
        bytes.extend_from_slice(element.or_broken("rows that are inside end inside"));
        at = at.wrapping_add_signed(step);
    }
}

/// Loops without those of one iteration, neighbours joined; at least one, which may become a row.
fn joined(fetcher: &Fetcher<'_>, image: &Fetch) -> Option<Vec<JoinedLoops>> {
    let special = |at: usize| {
        image.interleave.is_some_and(|interleave| interleave.at_loop == at)
            || image.indirect.is_some_and(|indirect| indirect.at_loop == at)
    };
    let mut all: Vec<JoinedLoops> = Vec::new();
    for (at, (size, stride)) in fetcher.walk.loops().enumerate() {
        let weight = |limit: &Limit| *limit.weights.get(at).or_broken("a limit weighs every loop");
        let weights: SmallVec<[u64; 2]> = image.limits.iter().map(weight).collect();
        if size == 1 && !special(at) {
            continue;
        }
        let steps = i64::try_from(size).ok()?;
        let joins = |outer: &&mut JoinedLoops| {
            outer.special.is_none()
                && !special(at)
                && stride.checked_mul(steps) == Some(outer.stride)
                && outer
                    .weights
                    .iter()
                    .zip(&weights)
                    .all(|(outer, own)| own.checked_mul(size) == Some(*outer))
        };
        match all.last_mut().filter(joins) {
            Some(outer) => {
                outer.size = outer.size.checked_mul(size)?;
                (outer.stride, outer.weights) = (stride, weights);
            }
            None => all.push(JoinedLoops { size, stride, weights, special: special(at).then_some(at) }),
        }
    }
    if all.last().is_none_or(|row| row.special.is_some()) {
        let weights = image.limits.iter().map(|_| 0).collect();
        all.push(JoinedLoops { size: 1, stride: 1, weights, special: None });
    }
    Some(all)
}
