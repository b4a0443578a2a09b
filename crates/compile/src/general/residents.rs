//! Values that stay in data memory between two contractions instead of passing HBM: the tiles of one leave
//! them where the tiles of others find them beside their sums. They have the top of data memory, each from
//! the kernel that makes it to the last that reads it there.

use tilewright_machine::tcp::Tcp;

use super::emit::dm_bytes;
use super::kernel::Kernels;
use super::link::Chosen;
use super::tiled::{FoundBeside, LeftResult, ResidentTiles, TileRoom, TiledContraction};

/// Part of data memory that stays for all other kernels: groups and chains need at most half.
const MOST_PART: u64 = 2;

/// A value that stays in data memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resident {
    /// The value.
    pub value: usize,
    /// The contraction whose tiles leave it.
    pub maker: usize,
    /// Contractions that find it.
    pub readers: Vec<usize>,
    /// HBM has it too, for other kernels or the host.
    pub is_stored: bool,
    /// First byte in each slice.
    pub base: u64,
    /// Bytes of a tile in each slice.
    pub tile_bytes: u64,
    /// Tiles of a PE.
    pub tiles: u64,
}

impl Resident {
    /// Bytes of each slice.
    pub fn bytes(&self) -> u64 {
        self.tile_bytes * self.tiles
    }

    fn end(&self) -> usize {
        self.readers.last().copied().unwrap_or(self.maker)
    }

    /// Whether both are needed at some time.
    fn meets(&self, other: &Resident) -> bool {
        self.maker <= other.end() && other.maker <= self.end()
    }
}

/// Values that contractions in tiles write, in the order in which they store them.
pub(super) fn given(all: &Kernels, chosen: &Chosen, number: usize) -> Vec<usize> {
    match chosen.joined.get(&number) {
        Some(joined) => joined.given(),
        None => all.kernels[number].results.clone(),
    }
}

/// The number of a value among those that a contraction brings beside its sums, if it reads it once.
pub(super) fn brought_by(chosen: &Chosen, number: usize, value: usize) -> Option<usize> {
    let (tiled, joined) = (chosen.tiled.get(&number)?, chosen.joined.get(&number)?);
    let mut inputs = joined.reads.iter().enumerate().filter(|(_, read)| **read == value);
    let (input, _) = inputs.next()?;
    inputs.next().is_none().then(|| tiled.brings(input))?
}

/// Whether a contraction finds a value where another leaves it.
fn finds(chosen: &Chosen, maker: &TiledContraction, number: usize, value: usize) -> bool {
    let alike = chosen.tiled.get(&number).is_some_and(|tiled| maker.lies_like(tiled));
    alike && brought_by(chosen, number, value).is_some()
}

/// The kernel that has the commands of another.
pub(super) fn issuer(chosen: &Chosen, number: usize) -> usize {
    let joined = chosen.epilogues.iter().find(|(_, tails)| tails.contains(&number));
    joined.map_or(number, |(contraction, _)| *contraction)
}

/// The value of a stored result with all who find it; `None` if nobody does.
fn candidate(
    all: &Kernels,
    chosen: &Chosen,
    (maker, stored, value): (usize, usize, usize),
    (readers, keep): (&[usize], bool),
) -> Option<Resident> {
    let tiled = chosen.tiled.get(&maker)?;
    let TileRoom { tile_bytes, tiles } = tiled.leaves(stored)?;
    let others: Vec<usize> = readers.iter().map(|reader| issuer(chosen, *reader)).collect();
    let is_found = |reader: &usize| {
        *reader > maker && *reader < all.kernels.len() && finds(chosen, tiled, *reader, value)
    };
    let outside: Vec<usize> = others.iter().copied().filter(|reader| *reader != maker).collect();
    let mut found: Vec<usize> = outside.iter().copied().filter(is_found).collect();
    found.sort_unstable();
    found.dedup();
    let is_stored = keep || outside.iter().any(|reader| !found.contains(reader));
    let base = 0;
    let one = Resident { value, maker, readers: found, is_stored, base, tile_bytes, tiles };
    (!one.readers.is_empty()).then_some(one)
}

/// Bytes of data memory that are left where the largest contraction has its own.
fn most_bytes(machine: &Tcp, chosen: &Chosen) -> u64 {
    let tiles = chosen.tiled.values().map(TiledContraction::room_bytes).fold(0, u64::max);
    let all = dm_bytes(machine);
    (all - tiles.min(all)).min(all / MOST_PART)
}

/// Values that stay, with their places; what others read is written besides, and everything if values are
/// kept.
pub(super) fn residents(
    machine: &Tcp,
    all: &Kernels,
    chosen: &Chosen,
    (readers, keep): (&[Vec<usize>], bool),
) -> Vec<Resident> {
    // Tactics have places of their own in data memory.
    if !chosen.tactics.is_empty() {
        return Vec::new();
    }
    let mut wanted: Vec<Resident> = Vec::new();
    for maker in chosen.tiled.keys() {
        for (stored, value) in given(all, chosen, *maker).into_iter().enumerate() {
            let inside = chosen.padded.get(maker).is_some_and(|inside| inside.value == value);
            let readers = (&readers[value][..], keep);
            wanted.extend(candidate(all, chosen, (*maker, stored, value), readers).filter(|_| !inside));
        }
    }
    // What need not be written saves most.
    wanted.sort_by_key(|one| (one.is_stored, std::cmp::Reverse(one.bytes()), one.maker));
    let (top, most) = (dm_bytes(machine), most_bytes(machine, chosen));
    let mut placed: Vec<Resident> = Vec::new();
    for one in wanted {
        // From the top down, below all that is there at the same time.
        let mut end = top;
        let mut below: Vec<&Resident> = placed.iter().filter(|other| other.meets(&one)).collect();
        below.sort_by_key(|other| std::cmp::Reverse(other.base));
        for other in below {
            if other.base + other.bytes() + one.bytes() <= end {
                break;
            }
            end = end.min(other.base);
        }
        if end >= one.bytes() && top - (end - one.bytes()) <= most {
            let base = end - one.bytes();
            placed.push(Resident { base, ..one });
        }
    }
    placed.sort_by_key(|one| (one.maker, one.value));
    placed
}

/// What stays of what a contraction gives, and what it finds.
pub(super) fn resident_tiles(
    all: &Kernels,
    chosen: &Chosen,
    residents: &[Resident],
    number: usize,
) -> ResidentTiles {
    let given = given(all, chosen, number);
    let room = |one: &Resident| TileRoom { tile_bytes: one.tile_bytes, tiles: one.tiles };
    let left = residents.iter().filter(|one| one.maker == number).filter_map(|one| {
        let stored = given.iter().position(|value| *value == one.value)?;
        Some(LeftResult { stored, room: room(one), base: one.base, is_stored: one.is_stored })
    });
    let found = residents.iter().filter(|one| one.readers.contains(&number)).filter_map(|one| {
        let brought = brought_by(chosen, number, one.value)?;
        Some(FoundBeside { brought, room: room(one), base: one.base })
    });
    ResidentTiles { left: left.collect(), found: found.collect() }
}
