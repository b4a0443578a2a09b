//! Rows that go inside of padding where they tear access units of HBM: slices put them between zeros in data
//! memory and write whole units, since HBM reads and changes a unit that is written in part (vISA book,
//! memory performance).

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::program::transfer::SLICE_STRIDE;

use super::commands_group::offset;
use super::contraction_facts::apart_cycles;
use super::cut::{ShareBox, boxes};
use super::emit::hbm;
use super::kernel::{Origin, Part};
use super::moves::Bytes;
use super::plan::Planner;
use super::refusal::Lowered;
use super::view::signed;

/// Rows of a move in blocks of so many for each slice; all in elements.
#[derive(Debug, PartialEq, Eq)]
struct PaddedRows {
    /// Blocks along each loop around rows, and along rows.
    digits: Vec<u64>,
    /// Strides of blocks where they are read, and where they are written.
    strides: [Vec<i64>; 2],
    /// Rows of a block.
    rows: u64,
    /// From row to row at both ends.
    steps: [i64; 2],
    /// Elements of a row.
    run: u64,
    /// Zeros before a row, and elements that are written.
    lead: u64,
    span: u64,
}

impl PaddedRows {
    /// Rows of a move over so many slices, if whole access units of so many elements can be written instead;
    /// transfers move whole granules of so many elements.
    fn new(part: &Part, slices: u64, [unit, granule]: [u64; 2]) -> Option<PaddedRows> {
        let loops: Vec<(u64, i64, i64)> = part.loops.iter().copied().filter(|row| row.0 > 1).collect();
        let [outer @ .., (lines, from, to), (run, 1, 1)] = &loops[..] else { return None };
        let (lines, run, pitch) = (*lines, *run, u64::try_from(*to).ok()?);
        let lead = u64::try_from(part.to_first).ok()? % unit;
        let span = (lead + run).next_multiple_of(unit);
        let around = outer.iter().map(|row| row.2).chain([*to]);
        let whole = around.clone().all(|stride| stride > 0 && stride.unsigned_abs().is_multiple_of(unit));
        let sizes = outer.iter().map(|row| row.0).chain([lines]);
        let apart = sizes.zip(around.clone()).skip(1).zip(around);
        let nested = apart.into_iter().all(|((size, inner), stride)| stride >= signed(size) * inner);
        let ends = [signed(lead), signed(run), *from, part.from_first];
        let mut ends = ends.into_iter().chain(outer.iter().map(|row| row.1));
        let even = ends.all(|elements| elements.unsigned_abs().is_multiple_of(granule));
        let planes: u64 = outer.iter().map(|row| row.0).product();
        let rows = (1..=lines).find(|rows| lines.is_multiple_of(*rows) && lines / rows * planes <= slices)?;
        if !(whole && nested && even) || span > pitch || span == run {
            return None;
        }
        let digits = outer.iter().map(|row| row.0).chain([lines / rows]).collect();
        let of = |end: &dyn Fn(&(u64, i64, i64)) -> i64, step: i64| {
            outer.iter().map(end).chain([step * signed(rows)]).collect::<Vec<i64>>()
        };
        let strides = [of(&|row| row.1, *from), of(&|row| row.2, *to)];
        Some(PaddedRows { digits, strides, rows, steps: [*from, *to], run, lead, span })
    }

    /// Cycles that torn units take alone, and those of whole ones with zeros before them.
    fn cycles(&self, machine: &Tcp, pes: u64, element_bytes: u64) -> [u64; 2] {
        let rows = self.digits.iter().product::<u64>() * self.rows;
        let clock = machine.chip.clock_hz.div_ceil(machine.hbm.timing_clock_hz.max(1));
        let torn = rows * machine.hbm.partial_write_cycles * clock / machine.hbm_channels().max(1);
        let zeros = self.rows * self.span * element_bytes / machine.commit.sub_width_bytes.max(1);
        let moved = apart_cycles(machine, rows * (self.run + self.span) * element_bytes, pes);
        [torn, zeros + moved + machine.tdma.startup_cycles]
    }
}

impl Planner<'_> {
    /// Moves rows inside of padding by whole access units, if that takes less; whether it did.
    pub(super) fn move_inside(&mut self, parts: &[Part], to: usize) -> Lowered<bool> {
        let ([part], Origin::Filled(0)) = (parts, &self.value(to).origin) else { return Ok(false) };
        let (machine, element_bytes) = (self.emitter.machine, self.value(to).element_bytes());
        let (pes, slices) = (self.emitter.pes(), machine.pe.slices);
        let units =
            [machine.hbm.access_bytes, machine.tdma.alignment_bytes].map(|bytes| bytes / element_bytes);
        let Some(rows) = PaddedRows::new(part, slices * pes, units) else { return Ok(false) };
        let [torn, whole] = rows.cycles(machine, pes, element_bytes);
        let room = rows.rows * rows.span * element_bytes;
        if whole >= torn || room > self.emitter.dm_bytes() / 2 {
            return Ok(false);
        }
        let blocks: u64 = rows.digits.iter().product();
        for pe in 0..blocks.div_ceil(slices) {
            self.emitter.turn_to(pe);
            let base = self.emitter.next_region(room);
            self.emitter.clear("clear", base, room);
            let range = (pe * slices, ((pe + 1) * slices).min(blocks));
            for to_dm in [true, false] {
                self.padded_blocks(part, (to, &rows), range, (base, to_dm))?;
            }
        }
        Ok(true)
    }

    /// Blocks of rows between HBM and the zeros that wait for them.
    fn padded_blocks(
        &mut self,
        part: &Part,
        (to, rows): (usize, &PaddedRows),
        (first, end): (u64, u64),
        (base, to_dm): (u64, bool),
    ) -> Lowered<()> {
        let bytes = self.value(to).element_bytes();
        let scale = |elements: i64| elements * signed(bytes);
        let side = usize::from(!to_dm);
        let (value, begins) =
            if to_dm { (part.from, part.from_first) } else { (to, part.to_first - signed(rows.lead)) };
        let (skipped, inside) = if to_dm { (rows.lead, rows.run) } else { (0, rows.span) };
        let strides = &rows.strides[side];
        for ShareBox { first: block, loops } in boxes(&rows.digits, first, end) {
            let at = begins + offset(&rows.digits, strides, block);
            let memory = hbm(self.places[value]).step(scale(at)).ok_or("a place")?;
            let slice = self.emitter.dm(base + skipped * bytes);
            let slice = slice.step(signed(block - first) * SLICE_STRIDE).ok_or("a place")?;
            let loops = loops
                .iter()
                .map(|(size, digit, step)| (*size, scale(strides[*digit]), signed(*step) * SLICE_STRIDE));
            let row = (rows.rows, scale(rows.steps[side]), scale(signed(rows.span)));
            let turned = |(size, memory, slice): (u64, i64, i64)| {
                if to_dm { (size, memory, slice) } else { (size, slice, memory) }
            };
            let loops = loops.chain([row]).map(turned).collect();
            let [source, target] = if to_dm { [memory, slice] } else { [slice, memory] };
            let name = if to_dm { "bring" } else { "keep" };
            self.emitter.bytes(name, &Bytes { source, target, loops, inside: inside * bytes });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Images of 3 x 224 x 224 in rows of 320 words: sixteen blocks of rows for each plane.
    #[test]
    fn rows_are_blocks_between_zeros() {
        let loops = vec![(24, 50_176, 73_600), (224, 224, 320), (224, 1, 1)];
        let part = Part { from: 0, from_first: 0, to_first: 1024, loops };
        let rows = PaddedRows::new(&part, 512, [64, 2]).expect("rows of padding");
        assert_eq!((rows.digits, rows.rows), (vec![24, 16], 14));
        assert_eq!((rows.lead, rows.run, rows.span), (0, 224, 256));
    }

    /// Whole access units are not torn, and pitches that are none cannot be mended.
    #[test]
    fn other_rows_are_moved_as_they_are() {
        let of = |run: u64, pitch: i64| Part {
            from: 0,
            from_first: 0,
            to_first: 64,
            loops: vec![(24, 64_000, 1 << 20), (224, 256, pitch), (run, 1, 1)],
        };
        assert_eq!(PaddedRows::new(&of(256, 320), 512, [64, 2]), None);
        assert_eq!(PaddedRows::new(&of(224, 250), 512, [64, 2]), None);
    }
}
