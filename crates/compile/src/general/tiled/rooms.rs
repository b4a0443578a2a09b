//! Buffers of a tiled contraction in each slice's data memory.

use tilewright_machine::tcp::Tcp;

use super::exchange::Exchange;
use super::finish::{Finish, Slot, Stage};
use super::tile::{TileShape, WORD_BYTES};

/// Buffers of what passes data memory.
pub(super) const BUFFERS: u64 = 2;

/// Buffers of one tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Buffers {
    pub(super) base: u64,
    pub(super) each: u64,
    pub(super) count: u64,
}

impl Buffers {
    fn new(bytes: u64, count: u64) -> Buffers {
        Buffers { base: 0, each: bytes, count }
    }

    /// First byte of the buffer for use `number`.
    pub(super) fn at(&self, number: u64) -> u64 {
        self.base + number % self.count.max(1) * self.each
    }
}

/// Buffers of everything that a tile needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rooms {
    pub(super) rows: Buffers,
    pub(super) columns: Buffers,
    pub(super) sums: Buffers,
    /// Sums of a block, to be added to those of the blocks before it.
    pub(super) parts: Buffers,
    /// Sums behind an exchange.
    pub(super) traded: Buffers,
    /// Operands of the vector engine's register file.
    pub(super) operands: Vec<Buffers>,
    /// Values that are brought beside the sums.
    pub(super) brought: Vec<Buffers>,
    /// Results of passes.
    pub(super) made: Vec<Buffers>,
    /// Narrow results.
    pub(super) narrow: Vec<Buffers>,
}

impl Rooms {
    /// What a tile takes, rows once.
    pub(super) fn new(machine: &Tcp, shape: &TileShape, finish: &Finish, blocks: bool) -> Rooms {
        let [rows, columns, sums] = shape.slice_bytes();
        let parts = if blocks { sums } else { 0 };
        let wide = finish.words * WORD_BYTES;
        let kept = |number: usize| {
            finish
                .stored
                .iter()
                .any(|one| !one.packing.is_narrow() && finish.slot(one.stream) == Some(Slot::Made(number)))
        };
        let made = |(number, stage): (usize, &Stage)| {
            let bytes = finish.stage_words(stage) * WORD_BYTES;
            Buffers::new(bytes, if kept(number) { BUFFERS } else { 1 })
        };
        let all = Rooms {
            rows: Buffers::new(rows, BUFFERS),
            columns: Buffers::new(columns, BUFFERS),
            sums: Buffers::new(sums, BUFFERS),
            parts: Buffers::new(parts, BUFFERS),
            traded: Buffers::new(Exchange::new(shape).bytes(), BUFFERS),
            operands: finish
                .operands
                .iter()
                .map(|one| Buffers::new(one.own_words().next_multiple_of(2) * WORD_BYTES, BUFFERS))
                .collect(),
            brought: finish.brought.iter().map(|_| Buffers::new(wide, BUFFERS)).collect(),
            made: finish.stages.iter().enumerate().map(made).collect(),
            narrow: finish.narrow_bytes().map(|bytes| Buffers::new(bytes, BUFFERS)).collect(),
        };
        all.laid(machine)
    }

    /// As large as both, for shapes with the same chain.
    #[must_use]
    pub(super) fn joined(mut self, machine: &Tcp, other: &Rooms) -> Rooms {
        for (own, its) in self.all_mut().into_iter().zip(other.clone().all_mut()) {
            own.each = own.each.max(its.each);
        }
        self.laid(machine)
    }

    /// With so many tiles of rows at once.
    #[must_use]
    pub(super) fn with_rows(mut self, machine: &Tcp, count: u64) -> Rooms {
        self.rows.count = count;
        self.laid(machine)
    }

    /// With room for operands of so many strips of columns, which are brought at once.
    #[must_use]
    pub(super) fn with_strips(mut self, machine: &Tcp, strips: u64) -> Rooms {
        self.operands.iter_mut().for_each(|buffers| buffers.count = strips.max(BUFFERS));
        self.laid(machine)
    }

    /// With a buffer for rows and for columns of a short block behind the others: places that no transfer
    /// fills stay clear there.
    #[must_use]
    pub(super) fn with_short_blocks(mut self, machine: &Tcp) -> Rooms {
        [self.rows.count, self.columns.count] = [BUFFERS + 1; 2];
        self.laid(machine)
    }

    /// With so many tiles of columns at once, if half of data memory holds all: what is to come is brought
    /// early.
    #[must_use]
    pub(super) fn with_columns(self, machine: &Tcp, count: u64) -> Rooms {
        let mut more = self.clone();
        more.columns.count = count.max(BUFFERS);
        let more = more.laid(machine);
        if 2 * more.bytes() <= machine.dm.capacity_bytes { more } else { self }
    }

    fn all_mut(&mut self) -> Vec<&mut Buffers> {
        let Rooms { rows, columns, sums, parts, traded, operands, brought, made, narrow } = self;
        let lists = operands.iter_mut().chain(brought).chain(made).chain(narrow);
        [rows, columns, sums, parts, traded].into_iter().chain(lists).collect()
    }

    /// One after the other from the first byte on.
    fn laid(mut self, machine: &Tcp) -> Rooms {
        let unit = machine.dm.banks * machine.dm.bank_access_bytes;
        let mut next = 0;
        for buffers in self.all_mut() {
            buffers.each = buffers.each.next_multiple_of(unit);
            buffers.base = next;
            next += buffers.each * buffers.count;
        }
        self
    }

    /// Bytes of all.
    pub(super) fn bytes(&self) -> u64 {
        let mut all = self.clone();
        all.all_mut().iter().map(|buffers| buffers.each * buffers.count).sum()
    }

    /// The same from another byte on.
    #[must_use]
    pub(super) fn moved(mut self, base: u64) -> Rooms {
        self.all_mut().into_iter().for_each(|buffers| buffers.base += base);
        self
    }

    /// Where a slot lies for a tile.
    pub(super) fn slot(&self, slot: Slot, exchanged: bool, tile: u64) -> u64 {
        match slot {
            Slot::Sums if exchanged => self.traded.at(tile),
            Slot::Sums => self.sums.at(tile),
            Slot::Brought(number) => self.brought[number].at(tile),
            Slot::Made(number) => self.made[number].at(tile),
        }
    }
}
