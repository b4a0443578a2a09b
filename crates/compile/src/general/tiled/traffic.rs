//! Tiles as transfers between row-major HBM and data memory, and what they take before there are any.

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::program::Transfer;
use tilewright_tcp_isa::program::transfer::{Address, MemoryInstance, MemoryLocation, SLICE_STRIDE};

use super::super::contraction_facts::LETTERS;
use super::super::emit::hbm;
use super::super::image::{even, stretches};
use super::super::kernel::{Part, Sizes, Strides};
use super::super::moves::{Bytes, transfers};
use super::super::tactic::Placed;
use super::super::view::signed;
use super::epilogue::Input;
use super::grid::Tile;
use super::lines::Windows;
use super::patch::Patch;
use super::split::Spread;
use super::tile::WORD_BYTES;

/// Where a tile of a row-major value lies, and where it goes to or comes from.
#[derive(Clone, Copy)]
pub(super) struct Place<'t> {
    /// Which of the tensors: rows, columns, result.
    pub(super) operand: usize,
    /// Its shape in data memory.
    pub(super) placed: &'t Placed,
    /// First byte of the value in HBM.
    pub(super) hbm: u64,
    /// From position to position on each axis, in elements.
    pub(super) strides: [u64; 3],
    /// Elements before the first of all.
    pub(super) before: u64,
    /// First position on each axis.
    pub(super) first: [u64; 3],
    /// Positions on each axis.
    pub(super) live: [u64; 3],
    /// First slice of the PE.
    pub(super) slice: u64,
    /// Byte of each slice.
    pub(super) offset: u64,
    /// Bytes of an element in HBM and in data memory.
    pub(super) element_bytes: u64,
    /// The windows that rows are positions of.
    pub(super) windows: Option<&'t Windows>,
    /// It is a result that is written: inside of padding, if windows say so.
    pub(super) written: bool,
    /// What slices have of the value that windows look at, if it comes once.
    pub(super) patch: Option<(Patch, Spread)>,
    /// As many more behind it as make up so many, each so many elements on, and so many bytes in each slice.
    pub(super) strips: (u64, u64, u64),
}

impl<'t> Place<'t> {
    /// The same with rows that are positions of windows.
    #[must_use]
    pub(super) fn through(self, windows: Option<&'t Windows>) -> Place<'t> {
        Place { windows, ..self }
    }

    /// The same as a result that is written.
    #[must_use]
    pub(super) fn stored(self, windows: Option<&'t Windows>) -> Place<'t> {
        Place { windows, written: true, ..self }
    }

    /// Elements of the value as they go to the shape in data memory.
    fn parts(&self, copies: bool) -> Option<(u64, Vec<Part>)> {
        let inner = self.strides[1];
        let axes = self.placed.axes_by(LETTERS[self.operand], self.strides, self.live);
        let Some(windows) = self.windows.filter(|_| self.operand != 1) else {
            let steps = self.first.iter().zip(self.strides).map(|(first, stride)| first * stride);
            let skipped = self.before + steps.sum::<u64>();
            return Some((skipped, self.placed.image.parts(0, &axes, copies)?));
        };
        if let Some((patch, over)) = &self.patch {
            let rows = (self.first[1], self.live[1]);
            let slice = SLICE_STRIDE.unsigned_abs() / self.element_bytes;
            let parts = patch.parts(windows, over, rows, slice)?;
            return Some((u64::try_from(windows.first).ok()?, parts));
        }
        let (first, results) = if self.written { windows.stored(inner) } else { (0, windows.results(inner)) };
        let (rows, skipped) = match self.operand {
            0 => (windows.rows(), u64::try_from(windows.first).ok()?),
            _ => (&results, u64::try_from(first).ok()? + self.first[2]),
        };
        let parts = self.placed.image.parts_by(0, copies, |axis, digits| {
            match self.placed.axes.get(axis).map(|(name, _)| name.as_str()) {
                Some("M") => rows.stretches(digits, self.first[1], self.live[1]),
                Some("K") => windows.sum_stretches(digits),
                _ => {
                    let (stride, live) = *axes.get(axis)?;
                    stretches(&even(digits, stride), live)
                }
            }
        })?;
        Some((skipped, parts))
    }
}

impl Place<'_> {
    /// Transfers of all elements, to data memory or from there; `None` if digits do not make up an axis.
    pub(super) fn transfers(&self, machine: &Tcp, name: &str, to_dm: bool) -> Option<Vec<Transfer>> {
        let (skipped, parts) = self.parts(to_dm)?;
        let scale = |elements: i64| elements * signed(self.element_bytes);
        let medium = MemoryInstance::Dm { slice: self.slice };
        let dm = Address::new(MemoryLocation { chip: 0, medium, offset: self.offset });
        let value = hbm(self.hbm + skipped * self.element_bytes);
        let mut all = Vec::new();
        for part in parts {
            let Part { from_first, to_first, loops, .. } = if to_dm { part } else { part.turned() };
            let [source, target] = if to_dm { [value, dm] } else { [dm, value] };
            let (strips, elements, bytes) = self.strips;
            let ends = [scale(signed(elements)), signed(bytes)];
            let [from, to] = if to_dm { ends } else { [ends[1], ends[0]] };
            let loops = loops.iter().map(|(size, from, to)| (*size, scale(*from), scale(*to)));
            let bytes = Bytes {
                source: source.step(scale(from_first))?,
                target: target.step(scale(to_first))?,
                loops: std::iter::once((strips, from, to)).chain(loops).collect(),
                inside: self.element_bytes,
            };
            all.extend(transfers(machine, name, &bytes));
        }
        Some(all)
    }
}

fn row_major([_, own, inner]: [u64; 3]) -> [u64; 3] {
    [own * inner, inner, 1]
}

/// Rows (0) or columns (1) of a tile as an operand; places are those of the first slice and of the first
/// byte.
pub(super) fn operand_place<'t>(sizes: Sizes, tile: &Tile, placed: &'t Placed, operand: usize) -> Place<'t> {
    let own = if operand == 0 { tile.rows } else { tile.columns };
    let Strides { first, batch, own: stride } = sizes.strides[operand];
    let numbers = sizes.numbers(operand);
    Place {
        operand,
        placed,
        hbm: 0,
        strides: [batch / numbers, stride / numbers, 1],
        before: first / numbers,
        first: [tile.batch, own.first, tile.summed.first / numbers],
        // Rows of several positions of the batch follow each other.
        live: [if operand == 0 { 1 } else { tile.planes }, own.count, tile.summed.count / numbers],
        slice: 0,
        offset: 0,
        element_bytes: sizes.operands.element_bytes(),
        windows: None,
        written: false,
        patch: None,
        strips: (1, 0, 0),
    }
}

/// A value with an element for each sum of a tile.
pub(super) fn result_place<'t>(
    sizes: Sizes,
    tile: &Tile,
    placed: &'t Placed,
    element_bytes: u64,
) -> Place<'t> {
    Place {
        operand: 2,
        placed,
        hbm: 0,
        strides: row_major([sizes.batch, sizes.rows, sizes.columns]),
        before: 0,
        first: [tile.batch, tile.rows.first, tile.columns.first],
        live: [1, tile.rows.count, tile.columns.count],
        slice: 0,
        offset: 0,
        element_bytes,
        windows: None,
        written: false,
        patch: None,
        strips: (1, 0, 0),
    }
}

/// A value with an element for each row or for each column of a tile.
pub(super) fn vector_place<'t>(sizes: Sizes, tile: &Tile, input: Input, placed: &'t Placed) -> Place<'t> {
    if input == Input::Rows {
        return row_place(sizes, tile, placed);
    }
    let (first, live) = ([0, 0, tile.columns.first], [1, 1, tile.columns.count]);
    Place {
        operand: 2,
        placed,
        hbm: 0,
        strides: row_major([1, 1, sizes.columns]),
        before: 0,
        first,
        live,
        slice: 0,
        offset: 0,
        element_bytes: WORD_BYTES,
        windows: None,
        written: false,
        patch: None,
        strips: (1, 0, 0),
    }
}

/// A value with an element for each row of a tile, as slices with whole rows have it.
pub(super) fn row_place<'t>(sizes: Sizes, tile: &Tile, placed: &'t Placed) -> Place<'t> {
    Place {
        operand: 2,
        placed,
        hbm: 0,
        strides: row_major([sizes.batch, sizes.rows, 1]),
        before: 0,
        first: [tile.batch, tile.rows.first, 0],
        live: [1, tile.rows.count, 1],
        slice: 0,
        offset: 0,
        element_bytes: WORD_BYTES,
        windows: None,
        written: false,
        patch: None,
        strips: (1, 0, 0),
    }
}

impl std::iter::Sum for Moved {
    fn sum<I: Iterator<Item = Moved>>(all: I) -> Moved {
        all.fold(Moved::default(), |sum, one| Moved {
            engine_cycles: sum.engine_cycles + one.engine_cycles,
            hbm_cycles: sum.hbm_cycles + one.hbm_cycles,
        })
    }
}

impl Place<'_> {
    /// Whether the engine can move all elements: addresses, strides and packets are whole granules.
    pub(super) fn is_aligned(&self, machine: &Tcp, to_dm: bool) -> bool {
        let granule = machine.tdma.alignment_bytes;
        let whole = |one: &Transfer| {
            let ends = [one.source.0, one.target.0, one.packet];
            let strides = one.loops.iter().flat_map(|row| [row.source, row.target]);
            ends.iter().all(|byte| byte.is_multiple_of(granule))
                && strides.into_iter().all(|stride| stride.unsigned_abs().is_multiple_of(granule))
        };
        self.transfers(machine, "part", to_dm).is_some_and(|all| all.iter().all(whole))
    }
}

/// Bytes that lie together at both ends, and how they lie in HBM.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs {
    /// Bytes in all, copies included.
    pub(super) bytes: u64,
    /// Bytes of a run.
    pub(super) run_bytes: u64,
    /// Runs start at whole access units.
    pub(super) aligned: bool,
    /// They are written to HBM.
    pub(super) written: bool,
}

/// What moving a tile takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    /// Cycles of the engine.
    pub(super) engine_cycles: u64,
    /// Cycles of HBM, if nobody else asks for anything.
    pub(super) hbm_cycles: f64,
}

impl Moved {
    /// Cycles if so many PEs move as much, so many of them together.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate"
    )]
    pub(super) fn cycles(&self, machine: &Tcp, sharing: u64, fused: u64) -> u64 {
        let shared = (self.hbm_cycles * sharing as f64) as u64;
        let busy = (self.engine_cycles / fused).max(shared);
        if busy == 0 { 0 } else { busy + machine.tdma.startup_cycles }
    }
}

/// Bytes that HBM moves in a cycle of the chip.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub(super) fn hbm_bytes_per_cycle(machine: &Tcp) -> f64 {
    machine.hbm_bytes_per_s() * machine.hbm.efficiency / machine.chip.clock_hz as f64
}

impl Runs {
    /// The same where so many lie one behind the other at both ends.
    pub(super) fn joined(self, runs: u64, unit: u64) -> Runs {
        let run_bytes = self.run_bytes * runs;
        let begins = runs > 1 && run_bytes.is_multiple_of(unit);
        Runs { run_bytes, aligned: self.aligned || begins, ..self }
    }

    /// Cycles by counting requests of the engine, access units of HBM, and units that are written in part.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) fn moved(&self, machine: &Tcp) -> Moved {
        let runs = self.bytes.div_ceil(self.run_bytes.max(1));
        let requests = runs * self.run_bytes.div_ceil(machine.tdma.request_bytes);
        let unit = machine.hbm.access_bytes;
        let units = runs * (self.run_bytes.div_ceil(unit) + u64::from(!self.aligned));
        let whole = self.aligned && self.run_bytes.is_multiple_of(unit);
        // A run that begins inside of a unit tears all units that its requests touch.
        let partial = if self.written && !whole { requests * 2 } else { 0 };
        let partial_cycles = partial * machine.hbm.partial_write_cycles / machine.hbm_channels().max(1);
        let partial_ns = partial_cycles as f64 / machine.hbm.timing_clock_hz as f64;
        Moved {
            engine_cycles: requests * machine.tdma.request_bytes / machine.tdma.bandwidth_bytes_per_cycle,
            hbm_cycles: (units * unit) as f64 / hbm_bytes_per_cycle(machine)
                + partial_ns * machine.chip.clock_hz as f64,
        }
    }
}
