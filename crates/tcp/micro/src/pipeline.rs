//! One context of one slice: fetch unit, the queue to the network, engines with a queue before each, and the
//! last unit.

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::CommandStages;
use tilewright_tcp_cost::cycles::fetch::FetchStage;
use tilewright_tcp_isa::switch::Topology;

use crate::command::{MicroCommand, MicroError};
use crate::contraction::ContractionEngine;
use crate::fetch::FetchUnit;
use crate::fifo::Fifo;
use crate::register_file::RegisterFile;
use crate::sink::{CommitUnit, PipelineSink, StoreUnit};
use crate::stages::{MicroStage, TransposeTiles, VectorEngine};
use crate::topology;

/// Flits between two engines.
const QUEUE_FLITS: u64 = 2;
/// Flits behind a fetch unit that need not wait for the network.
const FETCH_QUEUE_FLITS: u64 = 4;

/// A context at work.
#[derive(Clone, Debug)]
pub(crate) struct ContextPipeline {
    pub(crate) fetch: FetchUnit,
    stages: Vec<MicroStage>,
    /// Before each stage, and before the last unit.
    queues: Vec<Fifo>,
    pub(crate) sink: PipelineSink,
    /// Cycle after the last write so far.
    pub(crate) written_until: u64,
}

impl ContextPipeline {
    /// Builds the stages of a command, and checks that what one gives is what the next takes.
    pub(crate) fn new(machine: &Tcp, work: &MicroCommand) -> Result<ContextPipeline, MicroError> {
        let command = &sourced(machine, &work.command)?;
        let fetch = command.fetch.as_ref().ok_or(MicroError::NoFetch)?;
        let (mut flits, first) = match (&work.command.fetch, &work.command.commit) {
            (None, Some(commit)) => (FlitCount(commit.flits), MicroStage::Constant(commit.flits)),
            _ => (FlitCount(delivered_flits(machine, command)), MicroStage::Pass),
        };
        let mut stages = vec![first];
        let mut queues = vec![kept_queue(machine, command), Fifo::new(QUEUE_FLITS, 1)];
        if let Some(collect) = &command.collect {
            let packet_flits = collect.packet_bytes.div_ceil(machine.network.flit_bytes);
            flits.pass(collect.packets.saturating_mul(packet_flits))?;
        }
        if let Some(shape) = &command.contraction {
            let engine =
                ContractionEngine::new(machine, shape, work.reads, work.inner_steps, work.accumulators);
            let packets = (shape.groups.saturating_mul(shape.group_steps)).div_ceil(shape.repeats.max(1));
            flits.pass(packets.saturating_mul(shape.packet_bytes.div_ceil(machine.network.flit_bytes)))?;
            flits = FlitCount(shape.groups.saturating_mul(engine.group_flits()));
            stages.push(MicroStage::Contraction(Box::new(engine)));
            queues.push(Fifo::new(QUEUE_FLITS, 1));
        }
        if let Some(vector) = &command.vector {
            flits.pass(vector.flits)?;
            flits = FlitCount(vector_output(command, vector.flits));
            stages.push(MicroStage::Vector(VectorEngine::new(machine, vector, flits.0)));
            let depth = VectorEngine::depth_cycles(machine, vector);
            queues.push(Fifo::new(depth + QUEUE_FLITS, depth));
        }
        if let Some(cast) = &command.cast {
            flits.pass(cast.flits)?;
            stages.push(MicroStage::Pass);
            queues.push(Fifo::new(QUEUE_FLITS, 1));
        }
        if let Some(tile) = &command.transpose {
            let tile_flits = tile.rows.saturating_mul(tile.columns).div_ceil(tile.flit_elements.max(1));
            flits.pass(tile.tiles.saturating_mul(tile_flits))?;
            flits = FlitCount(tile.tiles.saturating_mul(tile.output_rows));
            stages.push(MicroStage::Transpose(TransposeTiles::new(machine, tile)));
            queues.push(Fifo::new(QUEUE_FLITS, 1));
        }
        let sink = sink(machine, work, flits)?;
        let fetch = FetchUnit::new(machine, fetch, work.fetch);
        Ok(ContextPipeline { fetch, stages, queues, sink, written_until: 0 })
    }

    /// The queue behind the router.
    pub(crate) fn input(&mut self) -> &mut Fifo {
        &mut self.queues[0]
    }

    /// The queue before the last unit.
    pub(crate) fn output(&self) -> &Fifo {
        &self.queues[self.queues.len() - 1]
    }

    /// One cycle of everything behind the network; whether anything was written.
    pub(crate) fn step(&mut self, now: u64, commits: bool, file: &mut RegisterFile) -> bool {
        let last = self.queues.len() - 1;
        let wrote = self.sink.step(now, commits, &mut self.queues[last], file);
        if wrote {
            self.written_until = now + 1;
        }
        for (index, stage) in self.stages.iter_mut().enumerate().rev() {
            let (before, after) = self.queues.split_at_mut(index + 1);
            stage.step(now, &mut before[index], &mut after[0], file);
        }
        wrote
    }

    pub(crate) fn is_done(&self) -> bool {
        self.sink.is_done() && self.fetch.is_done()
    }
}

/// A command with a fetch of its own: a fill reads nothing, and a direct load what it stores, as wide.
fn sourced(machine: &Tcp, command: &CommandStages) -> Result<CommandStages, MicroError> {
    let flit_bytes = machine.network.flit_bytes;
    let fetch = match (&command.fetch, &command.commit, &command.load) {
        (Some(fetch), ..) => *fetch,
        (None, Some(commit), _) => FetchStage {
            context: commit.context,
            packets: 0,
            packet_bytes: flit_bytes,
            read_bytes: flit_bytes,
            cast: false,
        },
        (None, None, Some(load)) => FetchStage {
            context: load.context,
            packets: load.slice_bytes.div_ceil(flit_bytes),
            packet_bytes: flit_bytes,
            read_bytes: flit_bytes,
            cast: false,
        },
        (None, None, None) => return Err(MicroError::NoFetch),
    };
    Ok(CommandStages { fetch: Some(fetch), ..*command })
}

/// The queue behind a fetch unit: the packet that its router buffers, and what a cast delays.
pub(crate) fn fetch_queue(machine: &Tcp, command: &CommandStages) -> Fifo {
    let cast_cycles = match &command.fetch {
        Some(fetch) if fetch.cast => machine.fetch.cast_cycles,
        _ => 0,
    };
    let queued_flits =
        command.switch.map_or(FETCH_QUEUE_FLITS, |switch| switch.packet_flits.max(QUEUE_FLITS));
    Fifo::new(queued_flits + cast_cycles, 1 + cast_cycles)
}

/// What a slice keeps waits here: a packet if it comes from a ring.
fn kept_queue(machine: &Tcp, command: &CommandStages) -> Fifo {
    let packet_flits = match command.switch {
        Some(switch) if switch.topology != Topology::Forwarding => switch.packet_flits,
        _ => 0,
    };
    Fifo::new(QUEUE_FLITS.max(packet_flits), machine.network.hop_cycles.min(1))
}

/// Sources that each slice keeps under a custom bitmap, as the collect stage counts them.
pub(crate) fn custom_sources(command: &CommandStages) -> u64 {
    let sent = command.switch.map_or(0, |switch| switch.packets);
    command.collect.and_then(|collect| collect.packets.checked_div(sent)).unwrap_or(0)
}

fn delivered_flits(machine: &Tcp, command: &CommandStages) -> u64 {
    let Some(fetch) = &command.fetch else { return 0 };
    let flits = fetch.packets.saturating_mul(fetch.packet_bytes.div_ceil(machine.network.flit_bytes));
    let kept = command.switch.map_or(1, |switch| {
        let slices = topology::slices(switch.topology);
        let custom = custom_sources(command);
        // Every slice keeps as many; those of slice 0 over one exchange tell how many.
        let steps = switch.packets.max(1);
        let kept = (0..steps.saturating_mul(slices))
            .filter(|&place| {
                topology::keeps(switch.topology, custom, 0, topology::sent(switch.topology, place))
            })
            .count() as u64;
        kept / steps
    });
    flits.saturating_mul(kept)
}

/// Flits that leave the vector engine: as many as the next stage takes.
fn vector_output(command: &CommandStages, flits: u64) -> u64 {
    let cast = command.cast.map(|cast| cast.flits);
    let commit = command.commit.filter(|_| command.transpose.is_none()).map(|commit| commit.flits);
    cast.or(commit).filter(|&next| next > 0 && flits.is_multiple_of(next)).unwrap_or(flits)
}

fn sink(machine: &Tcp, work: &MicroCommand, mut flits: FlitCount) -> Result<PipelineSink, MicroError> {
    if let Some(commit) = &work.command.commit {
        flits.pass(commit.flits)?;
        return Ok(PipelineSink::Commit(CommitUnit::new(machine, commit, work.commit)));
    }
    let load = work.command.load.as_ref().ok_or(MicroError::NoSink)?;
    flits.pass(load.slice_bytes.div_ceil(machine.network.flit_bytes))?;
    Ok(PipelineSink::Store(StoreUnit::new(machine, load)))
}

/// Flits that leave the stages so far.
#[derive(Clone, Copy, Debug)]
struct FlitCount(u64);

impl FlitCount {
    fn pass(&mut self, taken: u64) -> Result<(), MicroError> {
        if self.0 == taken { Ok(()) } else { Err(MicroError::Flits { given: self.0, taken }) }
    }
}
