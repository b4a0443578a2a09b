//! The loop over events, from launch to finish.

use tilewright_base::Span;
use tilewright_base::invariant::to_index;
use tilewright_machine::tcp::Tcp;
use tilewright_record::Sink;
use tilewright_tcp_cost::energy::{COMPONENTS, Component, energy_of_run_fj, standing_fj};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::{Program, RegisterId};

use crate::bandwidth::BandwidthSharing;
use crate::core::CoreState;
use crate::events::{EventKind, EventQueue};
use crate::image_use::ImageUses;
use crate::outcome::{BlockedCore, EngineUnit, EngineUse, RunEnd, WaitReason};
use crate::plan::PlanCache;
use crate::state::{PeState, RunTotals, World, small};
use crate::trace::RunTrace;
use crate::{Observer, SimError, SimOptions, SimOutcome, checks};

/// Chips that a run has room for.
const CHIPS: u64 = 64;
/// Events between two promises to the record that time has passed.
const SETTLED_EVENTS: u32 = 256;

/// Runs a program on a machine.
///
/// The sink decides how much of the record is kept, the observer computes values and findings. Memory grows
/// with the program and with what the sink keeps.
pub fn simulate<S: Sink>(
    machine: &Tcp,
    program: &Program,
    options: &SimOptions,
    sink: S,
    observer: &mut dyn Observer,
) -> Result<SimOutcome, SimError> {
    run(&RunSetup { machine, program, registers: &[], options }, &mut PlanCache::new(program), sink, observer)
}

/// What runs, and how.
pub(crate) struct RunSetup<'p> {
    pub(crate) machine: &'p Tcp,
    pub(crate) program: &'p Program,
    /// Registers that start with other values than the program says.
    pub(crate) registers: &'p [(RegisterId, i64)],
    pub(crate) options: &'p SimOptions,
}

/// [`simulate`] with plans of the same machine and program, from earlier runs.
pub(crate) fn run<S: Sink>(
    run: &RunSetup<'_>,
    plans: &mut PlanCache,
    sink: S,
    observer: &mut dyn Observer,
) -> Result<SimOutcome, SimError> {
    let chips = run.program.chips;
    if chips > CHIPS {
        return Err(SimError::Chips { chips, most: CHIPS });
    }
    let initial = initial(run)?;
    let mut world = World::new(run, plans, sink, observer)?;
    world.launch(&initial)?;
    world.run()?;
    world.finish()
}

/// What registers hold at the start.
fn initial(run: &RunSetup<'_>) -> Result<Vec<i64>, SimError> {
    let registers = &run.program.registers;
    let mut initial: Vec<i64> = registers.iter().map(|register| register.initial).collect();
    for (RegisterId(id), value) in run.registers {
        let (Some(slot), Some(declared)) = (initial.get_mut(*id as usize), registers.get(*id as usize))
        else {
            return Err(SimError::Unknown { what: "register", id: *id, span: Span::default() });
        };
        let (least, most, span) = (declared.least, declared.most, declared.span);
        if !(least..=most).contains(value) {
            let name = declared.name.clone();
            return Err(SimError::Register { name, value: *value, least, most, span });
        }
        *slot = *value;
    }
    Ok(initial)
}

impl<'p, 'j, S: Sink> World<'p, 'j, S> {
    fn new(
        run: &RunSetup<'p>,
        plans: &'j mut PlanCache,
        sink: S,
        observer: &'j mut dyn Observer,
    ) -> Result<World<'p, 'j, S>, SimError> {
        let RunSetup { machine, program, options, .. } = *run;
        let pes_per_chip = to_index(machine.pes());
        let ids = (0..program.chips).flat_map(|chip| (0..machine.pes()).map(move |pe| PeId { chip, pe }));
        Ok(World {
            machine,
            program,
            options: *options,
            images: ImageUses::new(program, plans),
            plans,
            pes: ids.map(PeState::new).collect(),
            pes_per_chip,
            events: EventQueue::default(),
            bandwidth: BandwidthSharing::new(machine),
            now: 0,
            tickets: 0,
            sums: RunTotals::default(),
            trace: RunTrace::new(machine, program, pes_per_chip, options.detail, sink)?,
            observer,
            stopped: false,
        })
    }

    /// Every core starts after the launch.
    fn launch(&mut self, initial: &[i64]) -> Result<(), SimError> {
        let launch_cycles = self.machine.command.launch_cycles;
        for queue in &self.program.queues {
            let id = PeId { chip: queue.chip, pe: queue.pe };
            let pe = self.index(id, queue.span)?;
            if self.pes[pe].used {
                return Err(SimError::TwoQueues { pe: id, span: queue.span });
            }
            self.pes[pe].used = true;
            self.pes[pe].core.start(&queue.steps, initial.to_vec());
            self.events.plan(launch_cycles, EventKind::Core(small(pe)));
        }
        self.now = launch_cycles;
        self.latency(launch_cycles);
        Ok(())
    }

    fn run(&mut self) -> Result<(), SimError> {
        let mut since = 0;
        while !self.stopped {
            let (event_at, moved_at) = (self.events.next_at(), self.bandwidth.next_end());
            if event_at == u64::MAX && moved_at == u64::MAX {
                return Ok(());
            }
            since += 1;
            if since == SETTLED_EVENTS {
                since = 0;
                self.settle();
            }
            if moved_at <= event_at {
                self.now = moved_at;
                self.transfer_done()?;
                continue;
            }
            let Some((at, what)) = self.events.take() else { return Ok(()) };
            if self.is_stale(what) {
                continue;
            }
            self.now = at;
            self.happens(what)?;
        }
        Ok(())
    }

    /// An end that was planned for another speed: time does not wait for it.
    fn is_stale(&self, what: EventKind) -> bool {
        let EventKind::ExecDone(pe, context, generation) = what else { return false };
        let running = self.pes.get(pe as usize).and_then(|pe| pe.running.get(usize::from(context)));
        running.is_none_or(|running| running.as_ref().is_none_or(|running| running.generation != generation))
    }

    fn happens(&mut self, what: EventKind) -> Result<(), SimError> {
        match what {
            EventKind::Core(pe) => self.run_core(pe as usize),
            EventKind::Processor(pe) => self.pump(pe as usize),
            EventKind::ExecDone(pe, context, _) => self.exec_done(pe as usize, usize::from(context)),
            EventKind::Contends(pe) => self.slow_sub(pe as usize),
            EventKind::Banks(pe) => self.leave_banks(pe as usize),
            EventKind::Moves(pe) => self.transfer_moves(pe as usize),
            EventKind::Bell(to, from) => {
                let from = self.pes[from as usize].id;
                self.wake_core(to as usize, WaitReason::Message(from));
                Ok(())
            }
            EventKind::Bitmap(pe) => {
                self.pump_chip(pe as usize)?;
                self.start_transfer(pe as usize)
            }
        }
    }

    /// Tells the record that nothing from now on starts before what is under way.
    fn settle(&mut self) {
        let mut settled = self.now;
        for pe in &self.pes {
            let running = pe.running.iter().flatten().map(|running| running.started);
            let sending = pe.sending.iter().map(|sending| sending.started);
            settled = running.chain(sending).fold(settled, u64::min);
        }
        self.trace.settle(settled);
    }

    fn ended(&self) -> RunEnd {
        if self.stopped {
            return RunEnd::Stopped;
        }
        let waits = |pe: &PeState<'_>| match pe.core.state {
            CoreState::Waits(on) => Some(BlockedCore { pe: pe.id, span: pe.core.span, on }),
            _ => None,
        };
        let Some(first) = self.pes.iter().find_map(waits) else { return RunEnd::Finished };
        let mut chain = vec![first];
        while let Some(WaitReason::Message(from)) = chain.last().map(|waiting| waiting.on) {
            let next = self.pes.iter().find(|pe| pe.id == from).and_then(waits);
            let Some(next) = next.filter(|next| chain.iter().all(|known| known.pe != next.pe)) else { break };
            chain.push(next);
        }
        RunEnd::Deadlock(chain)
    }

    fn finish(mut self) -> Result<SimOutcome, SimError> {
        let finish_cycles = self.machine.command.finish_cycles;
        self.latency(finish_cycles);
        let (ended, cycles) = (self.ended(), self.after(finish_cycles)?);
        let mut energy: [u128; COMPONENTS] = energy_of_run_fj(self.machine, &self.sums.counts);
        let standing = standing_fj(self.machine, self.program.chips, cycles);
        for (component, fj) in Component::STANDING.iter().zip(standing) {
            energy[*component as usize] = fj;
        }
        let utilisation = self.utilisation(cycles);
        let longest = self.pes.iter().flat_map(|pe| pe.busy[..3].iter().copied()).max().unwrap_or(0);
        let mut ledger = std::mem::take(&mut self.sums.ledger);
        ledger.longest_cycles = longest;
        let record = self.trace.finish(cycles, &energy)?;
        let mut outcome = SimOutcome {
            record,
            ended,
            cycles,
            commands: self.sums.commands,
            execs: self.sums.execs,
            transfers: self.sums.transfers,
            steps: self.sums.steps,
            counts: self.sums.counts,
            images: self.images.finish(),
            energy_fj: energy,
            utilisation,
            overflows: self.sums.overflows,
            lost_commands: self.sums.lost_commands,
            latency_cycles: self.sums.latency_cycles,
            violations: Vec::new(),
        };
        if self.options.check {
            outcome.violations = checks::all(self.machine, &outcome, &ledger);
        }
        Ok(outcome)
    }

    fn utilisation(&self, cycles: u64) -> Vec<EngineUse> {
        let used = self.pes.iter().filter(|pe| pe.used);
        let count = used.clone().count() as u64;
        let of = |engine: EngineUnit| EngineUse {
            engine,
            busy_cycles: used.clone().map(|pe| u128::from(pe.busy[engine as usize])).sum(),
            available_cycles: u128::from(cycles) * u128::from(count * engine.units()),
        };
        let units = EngineUnit::ALL.map(of).into_iter();
        units.filter(|used| !used.engine.if_used() || used.busy_cycles > 0).collect()
    }
}
