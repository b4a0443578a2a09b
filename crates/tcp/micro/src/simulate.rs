//! The clock: slices of a ring, each with two contexts over shared banks and a shared register file, cycle by
//! cycle.

use tilewright_machine::tcp::Tcp;

use crate::banks::{BankArbiter, UNITS};
use crate::command::{MicroCommand, MicroError, MicroOutcome};
use crate::fifo::Fifo;
use crate::pipeline::{ContextPipeline, custom_sources, fetch_queue};
use crate::register_file::RegisterFile;
use crate::ring::Routers;
use crate::sink::PipelineSink;
use crate::topology;

/// Most slices of a ring: those of a PE.
pub const SLICES_MAX: u64 = 64;
/// Most cycles.
pub const CYCLES_MAX: u64 = 1 << 22;
/// Cycles without a write after which nothing will come any more.
const STUCK_CYCLES: u64 = 1 << 17;

/// One context on all slices of a ring.
struct ContextRun {
    pipelines: Vec<ContextPipeline>,
    fetched: Vec<Fifo>,
    routers: Option<Routers>,
    banks_apart: bool,
}

impl ContextRun {
    fn new(machine: &Tcp, work: &MicroCommand, slices: u64) -> Result<ContextRun, MicroError> {
        let pipeline = ContextPipeline::new(machine, work)?;
        let ring = work.command.switch.filter(|switch| topology::uses_ring(switch.topology));
        Ok(ContextRun {
            pipelines: (0..slices).map(|_| pipeline.clone()).collect(),
            fetched: (0..slices).map(|_| fetch_queue(machine, &work.command)).collect(),
            routers: ring.map(|switch| Routers::new(machine, &switch, custom_sources(&work.command))),
            banks_apart: work.banks_apart,
        })
    }

    fn requests(&self, machine: &Tcp, now: u64, slice: usize) -> [Option<u128>; 2] {
        let pipeline = &self.pipelines[slice];
        let commit = match &pipeline.sink {
            PipelineSink::Commit(unit) => unit.request(machine, now, pipeline.output()),
            PipelineSink::Store(_) => None,
        };
        [pipeline.fetch.request(machine, &self.fetched[slice]), commit]
    }

    /// Moves fetched flits to the slices that keep them.
    fn exchange(&mut self, now: u64) {
        if let Some(routers) = &mut self.routers {
            routers.step(now, &mut self.pipelines, &mut self.fetched);
            return;
        }
        for (pipeline, fetched) in self.pipelines.iter_mut().zip(&mut self.fetched) {
            if fetched.is_ready(now) && pipeline.input().has_room() {
                fetched.pop();
                pipeline.input().push(now);
            }
        }
    }

    fn access(&mut self, now: u64, slice: usize) {
        self.pipelines[slice].fetch.access(now, &mut self.fetched[slice]);
    }

    fn is_done(&self) -> bool {
        self.pipelines.iter().all(ContextPipeline::is_done)
    }

    fn cycles(&self) -> u64 {
        self.pipelines.iter().map(|pipeline| pipeline.written_until).max().unwrap_or(0)
    }
}

/// Runs a command of the main context, and one of the sub context beside it on every slice.
pub fn run(
    machine: &Tcp,
    main: Option<&MicroCommand>,
    sub: Option<&MicroCommand>,
) -> Result<MicroOutcome, MicroError> {
    let ring = |work: Option<&MicroCommand>| {
        work.and_then(|work| work.command.switch).map_or(1, |switch| topology::slices(switch.topology))
    };
    let slices = ring(main).max(ring(sub));
    if slices > SLICES_MAX {
        return Err(MicroError::TooLarge { what: "slices", most: SLICES_MAX });
    }
    for work in [main, sub].into_iter().flatten() {
        check_size(work)?;
    }
    let build =
        |work: Option<&MicroCommand>| work.map(|work| ContextRun::new(machine, work, slices)).transpose();
    Simulation::new(machine, slices, [build(main)?, build(sub)?]).run()
}

/// Refuses what would take more cycles than are ever simulated, before memory or time is spent on it.
fn check_size(work: &MicroCommand) -> Result<(), MicroError> {
    let command = &work.command;
    let fetched = command.fetch.map_or(0, |fetch| fetch.packets.saturating_mul(fetch.packet_bytes));
    let sent = command.switch.map_or(0, |switch| {
        topology::slices(switch.topology).saturating_mul(switch.packets).saturating_mul(switch.packet_flits)
    });
    let steps = command.contraction.map_or(0, |shape| {
        let outputs =
            shape.group_output_steps.saturating_mul(shape.lanes.max(1)).saturating_mul(shape.columns);
        shape.groups.saturating_mul(shape.group_steps.saturating_add(outputs))
    });
    let flits = command.commit.map_or(0, |commit| commit.flits.saturating_mul(commit.valid_bytes));
    let tiles = command.transpose.map_or(0, |tile| {
        tile.tiles.saturating_mul(tile.rows.saturating_mul(tile.columns).saturating_add(tile.output_rows))
    });
    let vector = command.vector.map_or(0, |vector| vector.flits.saturating_add(vector.units));
    let largest = [fetched, sent, steps, flits, tiles, vector].into_iter().max().unwrap_or(0);
    if largest > CYCLES_MAX {
        return Err(MicroError::TooLarge { what: "bytes, flits or steps", most: CYCLES_MAX });
    }
    Ok(())
}

struct Simulation<'machine> {
    machine: &'machine Tcp,
    contexts: [Option<ContextRun>; 2],
    ports: Vec<BankArbiter>,
    files: Vec<RegisterFile>,
}

impl Simulation<'_> {
    fn new(machine: &Tcp, slices: u64, contexts: [Option<ContextRun>; 2]) -> Simulation<'_> {
        Simulation {
            machine,
            contexts,
            ports: (0..slices).map(|_| BankArbiter::default()).collect(),
            files: (0..slices).map(|_| RegisterFile::new(machine)).collect(),
        }
    }

    fn run(&mut self) -> Result<MicroOutcome, MicroError> {
        let (mut now, mut moved_at) = (0, 0);
        while !self.contexts.iter().flatten().all(ContextRun::is_done) {
            if self.cycle(now) {
                moved_at = now;
            }
            now += 1;
            if now > CYCLES_MAX || now - moved_at > STUCK_CYCLES {
                return Err(MicroError::Stuck(now));
            }
        }
        let cycles = |context: &Option<ContextRun>| context.as_ref().map_or(0, ContextRun::cycles);
        let missed_steps = self.files.iter().map(|file| file.missed_steps).max().unwrap_or(0);
        let [main, sub] = &self.contexts;
        Ok(MicroOutcome { main_cycles: cycles(main), sub_cycles: cycles(sub), missed_steps })
    }

    /// One cycle of everything; whether a fetch unit or a last unit moved.
    fn cycle(&mut self, now: u64) -> bool {
        let mut moved = false;
        let granted: Vec<[bool; UNITS]> =
            (0..self.ports.len()).map(|slice| self.arbitrate(now, slice)).collect();
        for file in &mut self.files {
            file.start_cycle();
        }
        for (index, context) in self.contexts.iter_mut().enumerate() {
            let Some(context) = context else { continue };
            for (slice, file) in self.files.iter_mut().enumerate() {
                moved |= context.pipelines[slice].step(now, granted[slice][2 * index + 1], file);
            }
            context.exchange(now);
            for (slice, granted) in granted.iter().enumerate() {
                if granted[2 * index] {
                    context.access(now, slice);
                    moved = true;
                }
            }
        }
        moved
    }

    fn arbitrate(&mut self, now: u64, slice: usize) -> [bool; UNITS] {
        let requests = |context: &Option<ContextRun>| {
            context.as_ref().map_or([None, None], |context| context.requests(self.machine, now, slice))
        };
        let [main_fetch, main_commit] = requests(&self.contexts[0]);
        let [sub_fetch, sub_commit] = requests(&self.contexts[1]);
        let apart =
            |context: &Option<ContextRun>| context.as_ref().is_some_and(|context| context.banks_apart);
        let apart = [apart(&self.contexts[0]), apart(&self.contexts[1])];
        self.ports[slice].grant([main_fetch, main_commit, sub_fetch, sub_commit], apart)
    }
}
