//! What slices give back to HBM, which takes whole access units: shorter rows that follow each other there
//! are put together in other slices first.

use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::program::transfer::{Address, SLICE_STRIDE};

use super::emit::{Block, Emitter, GATHER_BYTES, dm_bytes, hbm};
use super::moves::Bytes;
use super::view::signed;

/// Bytes of each slice at most where rows that are no whole access units of HBM are put together.
const MOST_STAGED: u64 = 131_072;

/// Rows of so many bytes that make up whole access units of HBM, if some few do.
pub(super) fn staged_rows(machine: &Tcp, row_bytes: u64) -> Option<u64> {
    let unit = machine.hbm.access_bytes.max(1);
    let rows = (1..=unit).find(|rows| (rows * row_bytes).is_multiple_of(unit))?;
    (rows > 1 && row_bytes > 0 && rows * row_bytes <= MOST_STAGED).then_some(rows)
}

/// Bytes of each slice that putting such rows together takes.
pub(super) fn staged_bytes(machine: &Tcp, row_bytes: u64) -> u64 {
    staged_rows(machine, row_bytes).map_or(0, |rows| rows * row_bytes)
}

/// The same byte of a slice so many on.
fn slice(first: Address, slices: u64) -> Address {
    first.step(signed(slices) * SLICE_STRIDE).or_broken("slices of a PE lie behind each other")
}

impl Emitter<'_> {
    /// Rows of slices to HBM. HBM takes whole access units: shorter rows that follow each other there are
    /// gathered in one slice first, where the places above those of kernels are free.
    pub(super) fn keep(&mut self, name: &str, block: &Block) {
        let bytes = block.slices * block.row_bytes;
        let short = !block.row_bytes.is_multiple_of(self.machine.hbm.access_bytes);
        let apart = block.pitch_bytes != block.row_bytes;
        if block.slices == 1 || !short || apart || bytes > GATHER_BYTES {
            return self.slices(name, false, block);
        }
        let source = slice(self.dm(block.dm), block.first_slice);
        let gathered = self.dm(dm_bytes(self.machine));
        let loops = vec![(block.slices, SLICE_STRIDE, signed(block.row_bytes))];
        self.bytes("gather", &Bytes { source, target: gathered, loops, inside: block.row_bytes });
        self.bytes(
            name,
            &Bytes { source: gathered, target: hbm(block.hbm), loops: Vec::new(), inside: bytes },
        );
    }

    /// The same, where so many rows that together are whole access units may be put together at a place of
    /// other slices.
    pub(super) fn keep_staged(&mut self, name: &str, block: &Block, staging: u64) {
        let unit = self.machine.hbm.access_bytes;
        let bytes = block.slices * block.row_bytes;
        let rows = staged_rows(self.machine, block.row_bytes);
        let rows = rows.filter(|_| block.hbm.is_multiple_of(unit) && bytes > GATHER_BYTES);
        let (Some(rows), true) = (rows, block.pitch_bytes == block.row_bytes && block.rows == 1) else {
            return self.keep(name, block);
        };
        let (whole, rest) = (block.slices / rows, block.slices % rows);
        let (sources, targets) = (self.dm(block.dm), self.dm(staging));
        // First slice that they are put together in, how many of these there are, and rows of each.
        let ends = [(0, whole, rows), (whole, u64::from(rest > 0), rest)];
        let ends = ends.into_iter().filter(|(_, slices, _)| *slices > 0);
        for (first, slices, own) in ends.clone() {
            let loops = vec![
                (slices, signed(own) * SLICE_STRIDE, SLICE_STRIDE),
                (own, SLICE_STRIDE, signed(block.row_bytes)),
            ];
            let source = slice(sources, block.first_slice + first * rows);
            let target = slice(targets, first);
            self.bytes("gather", &Bytes { source, target, loops, inside: block.row_bytes });
        }
        for (first, slices, own) in ends {
            let pitch = rows * block.row_bytes;
            let (source, target) = (slice(targets, first), hbm(block.hbm + first * pitch));
            let loops = vec![(slices, SLICE_STRIDE, signed(pitch))];
            self.bytes(name, &Bytes { source, target, loops, inside: own * block.row_bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_put_together_to_whole_access_units() {
        let machine = tilewright_testkit::tcp();
        assert_eq!(
            (staged_rows(&machine, 8 * 301 * 4), staged_bytes(&machine, 8 * 301 * 4)),
            (Some(8), 77_056)
        );
        assert_eq!(staged_rows(&machine, 100), Some(64));
        // Whole already, more than there is room for, and nothing.
        assert_eq!([4096, 20_004, 0].map(|bytes| staged_bytes(&machine, bytes)), [0; 3]);
    }
}
