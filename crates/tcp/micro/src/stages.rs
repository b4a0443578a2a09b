//! Engines behind the network, each a step of one cycle between two queues: collect, vector engine, cast,
//! transpose (vISA book, the engine of each name).

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::vector::VectorStage;
use tilewright_tcp_isa::transpose::TransposeStage;

use crate::contraction::ContractionEngine;
use crate::fifo::Fifo;
use crate::register_file::RegisterFile;

/// An engine at work.
#[derive(Clone, Debug)]
pub(crate) enum MicroStage {
    /// Collect and cast: a flit a cycle.
    Pass,
    /// The source of a fill: so many flits more, one a cycle, of nothing that was fetched.
    Constant(u64),
    Contraction(Box<ContractionEngine>),
    Vector(VectorEngine),
    Transpose(TransposeTiles),
}

impl MicroStage {
    pub(crate) fn step(&mut self, now: u64, input: &mut Fifo, output: &mut Fifo, file: &mut RegisterFile) {
        match self {
            MicroStage::Pass => {
                if input.is_ready(now) && output.has_room() {
                    input.pop();
                    output.push(now);
                }
            }
            MicroStage::Constant(left) => {
                if *left > 0 && output.has_room() {
                    output.push(now);
                    *left -= 1;
                }
            }
            MicroStage::Contraction(engine) => engine.step(now, input, output, file),
            MicroStage::Vector(engine) => engine.step(now, input, output),
            MicroStage::Transpose(tiles) => tiles.step(now, input, output),
        }
    }
}

/// A chain of vector units: it takes a flit in as many cycles as the narrow stages split it in, and may give
/// fewer than it takes.
#[derive(Clone, Debug)]
pub(crate) struct VectorEngine {
    flit_cycles: u64,
    /// Flits that become one.
    fold: u64,
    taken: u64,
    busy_until: u64,
}

impl VectorEngine {
    pub(crate) fn new(machine: &Tcp, vector: &VectorStage, output_flits: u64) -> VectorEngine {
        let split = vector.narrow && !vector.upper_half_padding;
        let flit_cycles = if split { machine.ve.int_ways.div_ceil(machine.ve.float_ways) } else { 1 };
        let fold = vector.flits.checked_div(output_flits).unwrap_or(1).max(1);
        VectorEngine { flit_cycles, fold, taken: 0, busy_until: 0 }
    }

    /// Depth of the chain and of the reduction between slices: the queue behind the engine.
    pub(crate) fn depth_cycles(machine: &Tcp, vector: &VectorStage) -> u64 {
        let hops = if vector.reduced_slices > 1 { vector.reduced_slices } else { 0 };
        machine.ve.pipeline_cycles + machine.ve.unit_cycles * vector.units + machine.network.hop_cycles * hops
    }

    fn step(&mut self, now: u64, input: &mut Fifo, output: &mut Fifo) {
        if now < self.busy_until || !input.is_ready(now) || !output.has_room() {
            return;
        }
        input.pop();
        self.busy_until = now + self.flit_cycles;
        self.taken += 1;
        if self.taken.is_multiple_of(self.fold) {
            output.push(now + self.flit_cycles - 1);
        }
    }
}

/// Buffers of rows. One tile fills while another leaves, unless a tile takes both buffers.
#[derive(Clone, Debug)]
pub(crate) struct TransposeTiles {
    tile_flits: u64,
    output_rows: u64,
    buffers: u64,
    filled_flits: u64,
    left_rows: u64,
}

impl TransposeTiles {
    pub(crate) fn new(machine: &Tcp, transpose: &TransposeStage) -> TransposeTiles {
        let needed = transpose.columns.div_ceil(machine.transpose.buffer_columns).max(1);
        TransposeTiles {
            tile_flits: (transpose.rows * transpose.columns).div_ceil(transpose.flit_elements.max(1)).max(1),
            output_rows: transpose.output_rows.max(1),
            buffers: (machine.transpose.buffers / needed).max(1),
            filled_flits: 0,
            left_rows: 0,
        }
    }

    fn step(&mut self, now: u64, input: &mut Fifo, output: &mut Fifo) {
        // A buffer that gives its last row in this cycle takes flits from the next on.
        let full_tiles = self.filled_flits / self.tile_flits;
        let emptied_tiles = self.left_rows / self.output_rows;
        if self.left_rows < full_tiles * self.output_rows && output.has_room() {
            self.left_rows += 1;
            output.push(now);
        }
        let room = full_tiles < emptied_tiles + self.buffers;
        if room && input.is_ready(now) {
            input.pop();
            self.filled_flits += 1;
        }
    }
}
