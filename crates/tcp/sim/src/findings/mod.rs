//! The findings of a run: what its commands did to each other and to memory that they must not.
//!
//! A [`FindingsChecker`] sees every [`RunEvent`] of a run and keeps no more than it needs: images with
//! their footprints, the commands that are not yet ordered before all that can follow, and which bytes hold
//! something. Time plays no part: a race is found whether or not the two commands met in this run.
//!
//! | file | holds |
//! |---|---|
//! | `finding` | [`Finding`], its codes, as diagnostic and as data |
//! | `order` | what happens before what |
//! | `images` | footprints of images and conflicts between two |
//! | `initialized` | which bytes hold something |
//! | `committed_reads` | which slices' reads matter |

mod committed_reads;
mod finding;
mod images;
mod initialized;
mod order;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tilewright_base::Span;
use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_machine::tcp::Tcp;

pub use finding::{CODES, FaultKind, Finding, FindingCommand, MemorySpot, WaitLink};

use committed_reads::committed_reads;
use images::{AccessConflict, FindingRegion, ImageId, ImageTable, READ, name_of};
use initialized::InitializedBytes;
use order::{HappensBefore, IssuedCommand, OrderStamp};
use tilewright_tcp_cost::cycles::image::{LongestCycles, exec_cycles, held_accesses, longest_cycles};
use tilewright_tcp_isa::footprint::self_overlap::SelfOverlap;
use tilewright_tcp_isa::footprint::{MemoryAccess, MemoryKind, OutOfBounds, tensor};
use tilewright_tcp_isa::program::event::{ExecUnit, PeId, RunEvent, Ticket};
use tilewright_tcp_isa::program::exec::Exec;
use tilewright_tcp_isa::program::tensor::{TensorData, TensorRole};
use tilewright_tcp_isa::program::{Program, Tensor};

/// A command that something may still race with.
#[derive(Clone, Debug)]
struct LiveCommand {
    image: ImageId,
    stamp: Rc<OrderStamp>,
    unit: ExecUnit,
    pe: PeId,
    ticket: Ticket,
    span: Span,
}

/// The commands of one unit in one region, in order.
#[derive(Clone, Debug, Default)]
struct UnitLane {
    live: Vec<LiveCommand>,
    /// Looked through when it has grown to this.
    next_prune: usize,
}

/// Checks a run while it happens, and collects its findings.
#[derive(Clone, Debug)]
pub struct FindingsChecker<'m> {
    machine: &'m Tcp,
    order: HappensBefore,
    images: ImageTable,
    objects: Vec<MemoryAccess>,
    outputs: Vec<Tensor>,
    filled: InitializedBytes,
    written: InitializedBytes,
    lanes: BTreeMap<FindingRegion, BTreeMap<usize, UnitLane>>,
    findings: Vec<Finding>,
    /// Findings by code and the images of both commands.
    known: BTreeMap<(&'static str, Option<ImageId>, Option<ImageId>), usize>,
}

/// Commands of a lane that are kept before the first look whether any can be forgotten.
const FIRST_PRUNE: usize = 16;

impl<'m> FindingsChecker<'m> {
    /// A checker of a program's run on a machine.
    pub fn new(machine: &'m Tcp, program: &Program) -> FindingsChecker<'m> {
        let pes = program.queues.iter().map(|queue| PeId { chip: queue.chip, pe: queue.pe });
        let mut checker = FindingsChecker {
            machine,
            order: HappensBefore::new(pes),
            images: ImageTable::default(),
            objects: program.tensors.iter().filter_map(|held| tensor::whole(machine, held)).collect(),
            outputs: program.tensors.iter().filter(|held| held.role == TensorRole::Output).cloned().collect(),
            filled: InitializedBytes::default(),
            written: InitializedBytes::default(),
            lanes: BTreeMap::new(),
            findings: Vec::new(),
            known: BTreeMap::new(),
        };
        let given = |held: &&Tensor| held.role != TensorRole::Output && held.data != TensorData::None;
        program.tensors.iter().filter(given).for_each(|held| checker.holds(held));
        checker
    }

    /// Memory holds a tensor from before the run on. An input arrives as one buffer, padding included.
    pub fn holds(&mut self, held: &Tensor) {
        let access = tensor::whole(self.machine, held);
        access.iter().for_each(|access| self.filled.fill(self.machine, access));
    }

    /// Takes note of what happened.
    pub fn observe(&mut self, event: &RunEvent<'_>) {
        match *event {
            RunEvent::Issue { ticket, pe, unit, id, image, received, span, at_cycles } => {
                let stamp = Rc::new(self.order.issue(pe, unit, IssuedCommand { ticket, id, received }));
                let known = self.images.intern(self.machine, image, pe, &self.objects);
                let live = LiveCommand { image: known, stamp, unit, pe, ticket, span };
                self.issued(&live, name_of(image), at_cycles);
            }
            RunEvent::Waited { pe, ticket } => self.order.waited(pe, ticket),
            RunEvent::Synced { pe } => self.order.synced(pe),
            RunEvent::Awaited { pe, ticket } => self.order.awaited(pe, ticket),
            RunEvent::Posted { from, to } => self.order.posted(from, to),
            RunEvent::Received { pe, from } => self.order.received(pe, from),
            RunEvent::Read { ticket, pe, address, dtype, span, at_cycles } => {
                let stamp = Rc::new(self.order.read(pe));
                let image = self.images.intern_read(self.machine, address, dtype);
                let live = LiveCommand { image, stamp, unit: ExecUnit::Core, pe, ticket, span };
                self.issued(&live, READ, at_cycles);
            }
            RunEvent::Start { .. } | RunEvent::Done { .. } => {}
        }
    }

    /// Adds what only the simulator can see: [`Finding::queue_overflow`], [`Finding::deadlock`].
    pub fn report(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// All findings, in the order in which they were first met.
    pub fn finish(mut self) -> Vec<Finding> {
        for output in std::mem::take(&mut self.outputs) {
            let elements = tensor::elements(self.machine, &output);
            let gap =
                elements.iter().find_map(|access| Some((access, self.written.gap(self.machine, access)?)));
            let Some((access, gap)) = gap else { continue };
            let message = format!("output `{}` has elements that no command wrote", output.name);
            self.findings.push(Finding {
                spot: Some(spot(access.memory, access.chip, gap.slice, gap.bytes)),
                span: Some(output.span),
                ..Finding::new("tcp/output-unwritten", message, "a command that writes all of it")
            });
        }
        self.findings
    }

    fn issued(&mut self, live: &LiveCommand, name: &str, at_cycles: u64) {
        if !self.images.get(live.image).is_some_and(|known| known.settled) {
            self.settle(live, name, at_cycles);
        }
        let regions = self.images.get(live.image).or_broken("a live command has an image").regions.clone();
        let mut met: BTreeSet<Ticket> = BTreeSet::new();
        for region in regions {
            let others = self.unordered(region, live);
            for other in &others {
                // Two images that meet in several regions fight once.
                if self.images.quarrel(self.machine, other.image, live.image) && met.insert(other.ticket) {
                    self.race(other, live, at_cycles);
                }
            }
            if matches!(region, FindingRegion::Pe(..)) {
                self.hold(region, &others, live, at_cycles);
            }
            self.keep(region, live);
        }
    }

    /// Commands of a region that are not ordered before another; of HBM only those that it has something
    /// against.
    fn unordered(&mut self, region: FindingRegion, live: &LiveCommand) -> Vec<LiveCommand> {
        let machine = self.machine;
        let (images, lanes) = (&mut self.images, self.lanes.get(&region));
        let mut others = Vec::new();
        for (unit, lane) in lanes.into_iter().flatten() {
            let seen = live.stamp.clock.get(*unit);
            for other in lane.live.iter().rev().take_while(|other| other.stamp.count > seen) {
                if matches!(region, FindingRegion::Pe(..)) || images.quarrel(machine, other.image, live.image)
                {
                    others.push(other.clone());
                }
            }
        }
        others
    }

    /// Adds a command to its lane. Of equal images the later stands for both: whatever is not ordered after
    /// the earlier is not ordered after the later either.
    fn keep(&mut self, region: FindingRegion, live: &LiveCommand) {
        let lane = self.lanes.entry(region).or_default().entry(live.stamp.unit).or_default();
        if let Some(at) = lane.live.iter().rposition(|kept| kept.image == live.image) {
            lane.live.remove(at);
        }
        lane.live.push(live.clone());
        if lane.live.len() >= lane.next_prune.max(FIRST_PRUNE) {
            let settled = self.order.settled(live.stamp.unit);
            lane.live.retain(|live| live.stamp.count > settled);
            lane.next_prune = 2 * lane.live.len();
        }
    }

    /// What an image does by itself: addresses outside of memories, reads of nothing. Its writes count from
    /// now on.
    fn settle(&mut self, live: &LiveCommand, name: &str, at_cycles: u64) {
        let Some(known) = self.images.get_mut(live.image) else { return };
        known.settled = true;
        let footprint = known.footprint.clone();
        let first = live.pe.pe.exact_mul(self.machine.pe.slices);
        let own = known.self_overlap(self.machine);
        let low = known.exec().and_then(|exec| priced_low(self.machine, exec));
        let reads = footprint.accesses.iter().filter(|access| !access.write && access.bytes.is_exact());
        let reads: Vec<MemoryAccess> =
            reads.flat_map(|access| committed_reads(known.exec(), first, access)).collect();
        for outside in &footprint.outside {
            let finding = self.alone("tcp/out-of-bounds", live, at_cycles, describe(name, outside));
            self.add((finding.code, Some(live.image), None), finding);
        }
        if let Some((closed_cycles, longest)) = low {
            let finding = Finding::cycles_low(self.party(live), closed_cycles, longest);
            self.add((finding.code, Some(live.image), None), finding);
        }
        if let Some(overlap) = own {
            self.disturbs_itself(live, name, at_cycles, &overlap);
        }
        for access in &reads {
            let Some(gap) = self.filled.gap(self.machine, access) else { continue };
            let message = format!("`{name}` reads {} that nothing has written", access.memory.name());
            let mut finding = self.alone("tcp/uninitialised", live, at_cycles, message);
            finding.spot = Some(spot(access.memory, access.chip, gap.slice, gap.bytes));
            self.add((finding.code, Some(live.image), None), finding);
        }
        for access in footprint.accesses.iter().filter(|access| access.write) {
            self.filled.fill(self.machine, access);
            self.written.fill(self.machine, access);
        }
    }

    /// A command that writes over what it reads later.
    fn disturbs_itself(&mut self, live: &LiveCommand, name: &str, at_cycles: u64, overlap: &SelfOverlap) {
        let (read, written, memory) = (overlap.read, overlap.written, overlap.memory.name());
        let may = if overlap.certain { "overwrites" } else { "may overwrite" };
        let message = format!(
            "`{name}` {may} what it reads later: it reads {memory} bytes {}..{} and writes {}..{}",
            read.0, read.1, written.0, written.1
        );
        let mut finding = self.alone("tcp/self-overlap", live, at_cycles, message);
        finding.spot = Some(spot(overlap.memory, overlap.chip, overlap.slice, overlap.bytes));
        finding.certain = overlap.certain;
        self.add((finding.code, Some(live.image), None), finding);
    }

    fn alone(&self, code: &'static str, live: &LiveCommand, at_cycles: u64, message: String) -> Finding {
        let instead = match code {
            "tcp/uninitialised" => "an input with data, or a command that writes it, waited for before",
            "tcp/self-overlap" => "a target apart from what is read, or one that follows the reads",
            _ => "sizes, strides and a base that stay inside the memory",
        };
        Finding {
            first: Some(self.party(live)),
            at_cycles: Some(at_cycles),
            ..Finding::new(code, message, instead)
        }
    }

    fn race(&mut self, first: &LiveCommand, second: &LiveCommand, at_cycles: u64) {
        let conflicts = self.images.conflicts(self.machine, first.image, second.image).to_vec();
        for conflict in conflicts {
            let key = (conflict.code, Some(first.image), Some(second.image));
            if let Some(finding) = self.known.get(&key).and_then(|at| self.findings.get_mut(*at)) {
                finding.count += 1;
                continue;
            }
            let (one, other) = (self.party(first), self.party(second));
            let finding = Finding {
                spot: Some(spot(conflict.memory, conflict.chip, conflict.slice, conflict.bytes)),
                at_cycles: Some(at_cycles),
                certain: conflict.certain,
                ..Finding::new(
                    conflict.code,
                    quarrel(&conflict, &one.name, &other.name),
                    settle_by(&one, &other),
                )
            };
            self.add(key, Finding { first: Some(one), second: Some(other), ..finding });
        }
    }

    /// The bank rule: commands that may run beside a transfer hold a bank too long, alone or both contexts
    /// together.
    fn hold(&mut self, region: FindingRegion, others: &[LiveCommand], live: &LiveCommand, at_cycles: u64) {
        let most = self.machine.starvation_accesses();
        let beside = || others.iter().chain([live]);
        let moving = |run: &&LiveCommand| run.unit == ExecUnit::Dma;
        if beside().all(|run| moving(&run)) || !beside().any(|run| moving(&run)) {
            return;
        }
        let runs: Vec<LiveCommand> =
            beside().filter(|run| matches!(run.unit, ExecUnit::Main | ExecUnit::Sub)).cloned().collect();
        let moves = beside().filter(moving).filter(|transfer| {
            self.images.get(transfer.image).is_some_and(|known| known.moves.contains(&region))
        });
        let moves: Vec<LiveCommand> = moves.cloned().collect();
        for transfer in moves {
            let apart = |run: &LiveCommand, other: &LiveCommand| {
                !run.stamp.before(&other.stamp) && !other.stamp.before(&run.stamp)
            };
            let mut worst: Option<(u64, Vec<LiveCommand>)> = None;
            for run in runs.iter().filter(|run| apart(run, &transfer)) {
                let own = self.hold_of(run.image);
                let mut total = (own, vec![run.clone()]);
                for other in runs.iter().filter(|other| other.unit != run.unit) {
                    if apart(other, &transfer) && apart(other, run) {
                        // Both are compared with a limit: more than can be counted is above it.
                        let both = own.saturating_add(self.hold_of(other.image));
                        if both > total.0 {
                            total = (both, vec![run.clone(), other.clone()]);
                        }
                    }
                }
                let newest =
                    transfer.ticket == live.ticket || total.1.iter().any(|run| run.ticket == live.ticket);
                if newest && worst.as_ref().is_none_or(|worst| total.0 > worst.0) {
                    worst = Some(total);
                }
            }
            if let Some((held, by)) = worst.filter(|(held, _)| *held >= most) {
                self.held(held, &by, &transfer, at_cycles);
            }
        }
    }

    fn held(&mut self, held: u64, by: &[LiveCommand], transfer: &LiveCommand, at_cycles: u64) {
        let Some(first) = by.first() else { return };
        let most = self.machine.starvation_accesses();
        let names: Vec<String> = by.iter().map(|run| format!("`{}`", self.party(run).name)).collect();
        let second = self.party(transfer);
        let message = format!(
            "{} {} a bank for {held} accesses in a row beside `{}`; fewer than {most} are safe",
            names.join(" and "),
            if names.len() == 1 { "holds" } else { "hold" },
            second.name
        );
        let finding = Finding {
            first: Some(self.party(first)),
            second: Some(second),
            at_cycles: Some(at_cycles),
            ..Finding::new("tcp/bank-hold", message, "strides that pass all banks, or a wait between the two")
        };
        self.add((finding.code, Some(first.image), Some(transfer.image)), finding);
    }

    fn hold_of(&mut self, image: ImageId) -> u64 {
        let machine = self.machine;
        let Some(known) = self.images.get_mut(image) else { return 0 };
        let hold = known.hold.unwrap_or_else(|| known.exec().map_or(0, |exec| held_accesses(machine, exec)));
        known.hold = Some(hold);
        hold
    }

    fn add(&mut self, key: (&'static str, Option<ImageId>, Option<ImageId>), finding: Finding) {
        match self.known.get(&key).and_then(|at| self.findings.get_mut(*at)) {
            Some(known) => known.count += 1,
            None => {
                self.known.insert(key, self.findings.len());
                self.findings.push(finding);
            }
        }
    }

    fn party(&self, live: &LiveCommand) -> FindingCommand {
        let unit = match live.unit {
            ExecUnit::Main => "main",
            ExecUnit::Sub => "sub",
            ExecUnit::Dma => "dma",
            ExecUnit::Core => "core",
        };
        let name = self.images.get(live.image).map_or("", |known| known.name());
        FindingCommand::new(name, live.pe, unit, live.ticket, live.span)
    }
}

/// Cycles by which a command must be priced too low to be told of: a microsecond of the paper's chip.
const TOLD_CYCLES: u64 = 1000;

/// The closed form and the bound of a command that may take half as long again as it is priced at, and a
/// microsecond more.
fn priced_low(machine: &Tcp, exec: &Exec) -> Option<(u64, LongestCycles)> {
    let closed = exec_cycles(machine, exec);
    let longest = longest_cycles(machine, exec, &closed);
    let priced = closed.total_cycles;
    let longer = longest.total_cycles.saturating_sub(priced);
    (longer >= TOLD_CYCLES.max(priced / 2)).then_some((priced, longest))
}

fn spot(memory: MemoryKind, chip: u64, slice: u64, (start, end): (u64, u64)) -> MemorySpot {
    let slice = (memory != MemoryKind::Hbm).then_some(slice);
    MemorySpot { memory: memory.name(), chip, slice, start, end }
}

fn describe(name: &str, outside: &OutOfBounds) -> String {
    let does = if outside.write { "writes" } else { "reads" };
    let (start, end) = outside.bytes;
    match outside.memory {
        Some(memory) => format!(
            "`{name}` {does} bytes {start}..{end} of {}, which has {}",
            memory.name(),
            outside.capacity
        ),
        None => format!("`{name}` {does} addresses {start:#x}..{end:#x}, where no memory is"),
    }
}

fn quarrel(conflict: &AccessConflict, first: &str, second: &str) -> String {
    let does = |writes: bool| if writes { "writes" } else { "reads" };
    let (one, other) = (does(conflict.writes.0), does(conflict.writes.1));
    let memory = conflict.memory.name();
    if conflict.code == "tcp/trf-half" {
        return format!(
            "`{first}` {one} and `{second}` {other} the same half of the trf, and nothing orders them"
        );
    }
    let may = if conflict.certain { "" } else { "may be what " };
    format!("`{first}` {one} {memory} bytes that {may}`{second}` {other}, and nothing orders them")
}

fn settle_by(first: &FindingCommand, second: &FindingCommand) -> String {
    if (first.chip, first.pe) != (second.chip, second.pe) {
        return format!("sync and post on pe {}, receive on pe {} before it", first.pe, second.pe);
    }
    match first.unit {
        "dma" => format!("`wait_d` for `{}` before `{}`", first.name, second.name),
        _ => format!("`wait_e` for `{}` before `{}`", first.name, second.name),
    }
}
