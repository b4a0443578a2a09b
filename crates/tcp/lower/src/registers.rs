//! The stationary operand in the register files: how a lane's part is laid out, and the command that loads it
//! (paper section IV-C; rows and alignment from the vISA book, tensor register file).
//!
//! Rows follow the steps of the contraction. A row that is whole words is padded so that wide reads are
//! aligned; smaller rows lie densely, and are loaded at the largest size of an axis that is known only at run
//! time.

use super::dynamic::DynamicAxes;
use super::limits::FetchLoop;
use super::loops::SequencerLoop;
use super::packet::PaddedPacket;
use super::view::{CutMismatch, DigitStep, LoopPiece, SliceView, ViewDigit, steps};

/// The layout of a lane and the loops that fill it.
#[derive(Clone, Debug)]
pub(super) struct RegisterLayout {
    /// Where the contraction finds elements, from the start of its lane.
    pub(super) view: SliceView,
    /// Loops of the loading fetch: lanes, steps, row.
    pub(super) rows: Vec<FetchLoop>,
    /// Elements of a packet of it.
    pub(super) packet: u64,
    /// Loops of its commit, in bytes.
    pub(super) commit: Vec<SequencerLoop>,
    /// Bytes of a flit that are kept.
    pub(super) commit_bytes: u64,
    /// Bytes of a lane that are used.
    pub(super) lane_bytes: u64,
}

/// What the layout is made for.
pub(super) struct RegisterLayoutInput<'a> {
    /// The operand in this slice's data memory.
    pub(super) view: &'a SliceView,
    pub(super) lanes: &'a [LoopPiece],
    pub(super) time: &'a [LoopPiece],
    pub(super) packet: &'a PaddedPacket,
    pub(super) dynamic: &'a DynamicAxes,
    pub(super) bits: u64,
    pub(super) flit_bytes: u64,
    pub(super) word_bytes: u64,
    /// Bytes of register file of each lane in use.
    pub(super) lane_room: u64,
    /// Bytes of a wide read.
    pub(super) wide_bytes: u64,
}

impl RegisterLayoutInput<'_> {
    /// Whether rows are read as wide as a packet can be: all that meets it lies side by side, and it takes
    /// more than one flit.
    fn reads_wide(&self, row: &[(LoopPiece, u64)]) -> bool {
        let elements: u64 = row.iter().map(|(_, size)| size).product();
        elements * self.bits > self.flit_bytes * 8 || self.packet.flits > 1 && elements == self.packet.active
    }
}

impl RegisterLayout {
    pub(super) fn new(input: &RegisterLayoutInput<'_>) -> Result<RegisterLayout, CutMismatch> {
        let stored = |piece: &&LoopPiece| input.view.has(piece.axis);
        let time: Vec<LoopPiece> = input.time.iter().filter(stored).copied().collect();
        let mut row: Vec<(LoopPiece, u64)> =
            input.packet.met().into_iter().filter(|(piece, _)| input.view.has(piece.axis)).collect();
        let bits_of =
            |row: &[(LoopPiece, u64)]| row.iter().map(|(_, size)| size).product::<u64>() * input.bits;
        let whole = |bits: u64| bits.is_multiple_of(input.word_bytes * 8);
        // Rows of wide reads are aligned, so they cannot lie densely: the outermost piece is filled up to
        // whole words.
        let wide = input.reads_wide(&row);
        while wide && !whole(bits_of(&row)) {
            let Some((_, size)) = row.first_mut() else { break };
            *size += 1;
        }
        let row_bits = bits_of(&row);
        if whole(row_bits) {
            let row_bytes = row_bits / 8;
            let aligned = row_bytes.next_multiple_of(input.wide_bytes);
            let row_stride = if wide { aligned } else { row_bytes.next_power_of_two().min(aligned) };
            RegisterLayout::in_rows(input, &time, &row, (row_bytes, row_stride))
        } else {
            RegisterLayout::densely(input, &time, &row)
        }
    }

    /// Lanes, steps and row as loops over data memory.
    fn fetch_rows(
        input: &RegisterLayoutInput<'_>,
        time: &[LoopPiece],
        row: &[(LoopPiece, u64)],
    ) -> Result<Vec<FetchLoop>, CutMismatch> {
        let mut rows = Vec::new();
        for piece in input.lanes.iter().chain(time) {
            rows.push(FetchLoop::of(*piece, input.view.stride(piece)?.unwrap_or(0)));
        }
        for (piece, size) in row {
            let stride = input.view.stride(piece)?.unwrap_or(0);
            rows.push(FetchLoop { size: *size, ..FetchLoop::of(*piece, stride) });
        }
        Ok(rows)
    }

    fn in_rows(
        input: &RegisterLayoutInput<'_>,
        time: &[LoopPiece],
        row: &[(LoopPiece, u64)],
        (row_bytes, row_stride): (u64, u64),
    ) -> Result<RegisterLayout, CutMismatch> {
        let flits = row_bytes.div_ceil(input.flit_bytes);
        let mut commit = lane_loops(input);
        let strides = nested(time.iter().map(|piece| piece.size), row_stride);
        let step_loop = |(piece, stride): (&LoopPiece, u64)| SequencerLoop {
            size: piece.size,
            by: input.dynamic.steps(piece),
            stride,
        };
        commit.extend(time.iter().zip(strides).map(step_loop));
        commit.push(SequencerLoop::of(flits, input.flit_bytes));
        let mut rows = RegisterLayout::fetch_rows(input, time, row)?;
        for (row, piece) in rows.iter_mut().skip(input.lanes.len()).zip(time) {
            row.by = input.dynamic.steps(piece);
        }
        Ok(RegisterLayout {
            view: lane_view(time, row, row_stride * 8 / input.bits),
            rows,
            packet: row.iter().map(|(_, size)| size).product(),
            commit,
            commit_bytes: if flits == 1 { row_bytes } else { input.flit_bytes },
            lane_bytes: row_stride * steps(time),
        })
    }

    fn densely(
        input: &RegisterLayoutInput<'_>,
        time: &[LoopPiece],
        row: &[(LoopPiece, u64)],
    ) -> Result<RegisterLayout, CutMismatch> {
        let row_elements: u64 = row.iter().map(|(_, size)| size).product();
        let view = lane_view(time, row, row_elements);
        let mut rows = RegisterLayout::fetch_rows(input, time, row)?;
        let word = input.word_bytes * 8;
        // Padding follows the lane's last element: the outermost of its loops runs on, or there is one.
        let first = input.lanes.len();
        if first == rows.len() {
            rows.push(FetchLoop::plain(1, 0, 1));
        }
        let inner: u64 = rows[first + 1..].iter().map(|row| row.size).product();
        while !(rows[first].size * inner * input.bits).is_multiple_of(word) {
            rows[first].size += 1;
        }
        let lane_bytes = rows[first].size * inner * input.bits / 8;
        let mut packet_bytes = input.flit_bytes;
        while !lane_bytes.is_multiple_of(packet_bytes) {
            packet_bytes /= 2;
        }
        let mut commit = lane_loops(input);
        commit.push(SequencerLoop::of(lane_bytes / packet_bytes, packet_bytes));
        let packet = packet_bytes * 8 / input.bits;
        Ok(RegisterLayout { view, rows, packet, commit, commit_bytes: packet_bytes, lane_bytes })
    }
}

/// Loops over lanes: a lane starts a whole part of the register file after the last.
fn lane_loops(input: &RegisterLayoutInput<'_>) -> Vec<SequencerLoop> {
    let strides = nested(input.lanes.iter().map(|piece| piece.size), input.lane_room);
    input.lanes.iter().zip(strides).map(|(piece, stride)| SequencerLoop::of(piece.size, stride)).collect()
}

/// Strides of nested loops whose innermost step is `unit`.
fn nested(sizes: impl DoubleEndedIterator<Item = u64>, unit: u64) -> Vec<u64> {
    let mut stride = unit;
    let mut strides: Vec<u64> = sizes
        .rev()
        .map(|size| {
            let own = stride;
            stride *= size;
            own
        })
        .collect();
    strides.reverse();
    strides
}

/// A lane as a view: rows by step, elements by packet piece.
fn lane_view(time: &[LoopPiece], row: &[(LoopPiece, u64)], row_elements: u64) -> SliceView {
    let in_time = time.iter().zip(nested(time.iter().map(|piece| piece.size), row_elements));
    let in_row = row.iter().zip(nested(row.iter().map(|(_, size)| *size), 1));
    let digit = |piece: &LoopPiece, size: u64, stride: u64| ViewDigit {
        axis: piece.axis,
        weight: piece.weight,
        size,
        at: DigitStep::Offset(stride),
    };
    let digits = in_time
        .map(|(piece, stride)| digit(piece, piece.size, stride))
        .chain(in_row.map(|((piece, size), stride)| digit(piece, *size, stride)));
    SliceView { base: 0, digits: digits.collect() }
}
