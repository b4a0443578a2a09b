//! The TCP as a target of the search: the choices of a frame, from lanes and packets inwards, each level with
//! a bound or a rule.

use tilewright_tcp_cost::cycles::batches::BatchCycles;
use tilewright_tcp_cost::energy::energy_fj;

use crate::cost_math::CostMath;
use crate::refusal::{CandidateRefusal, RefusalCounts};
use crate::search::FrameVisitor;
use crate::target::{CostBound, SearchTarget, TargetChoice};
use crate::tcp::bound::{PartialChoice, bound};
use crate::tcp::cost::check_drain;
use crate::tcp::events::cycle_fj;
use crate::tcp::legality::check_sizes;
use crate::tcp::nest::FrameContext;
use crate::tcp::nest_cost::{DrainCost, LOADINGS, NestCost, OrderClass};
use crate::tcp::operand_transfers::{TransferMemo, brought};
use crate::tcp::point::{LoopNest, TcpChoice, TcpFrame};
use crate::tcp::space;
use crate::tcp::task::TcpTask;

impl TargetChoice for TcpChoice {
    fn code(&self) -> u64 {
        TcpChoice::code(self)
    }

    /// Ties are told apart by what differs more than how results are written.
    fn rank(&self) -> u64 {
        let narrow = u64::from(self.commit_bytes.max(1).leading_zeros());
        narrow * 2 + self.drain as u64
    }
}

impl SearchTarget for TcpTask<'_> {
    type Frame = TcpFrame;
    type Choice = TcpChoice;

    fn ticks_per_s(&self) -> u64 {
        self.setup.machine.chip.clock_hz
    }

    fn frames(&self, refused: &mut RefusalCounts) -> Vec<TcpFrame> {
        space::frames_and_misses(self, refused)
    }

    fn bound(&self, frame: &TcpFrame) -> CostBound {
        let open = PartialChoice { lanes: self.setup.machine.ce.lanes, packet: None };
        bound(self, &FrameContext::new(self, frame), open)
    }

    fn walk(&self, frame: &TcpFrame, visitor: &mut FrameVisitor<'_, TcpChoice>) {
        let framed = FrameContext::new(self, frame);
        let (cycle_fj, memo) = (cycle_fj(&self.setup), TransferMemo::new());
        let nest_cost = NestCost::new(&self.setup);
        FrameWalk { task: self, framed: &framed, cycle_fj, memo, nest_cost, visitor }.packets();
    }
}

/// The choices of one frame, one after the other.
struct FrameWalk<'a, 'b> {
    task: &'a TcpTask<'a>,
    framed: &'a FrameContext,
    cycle_fj: u64,
    /// Transfers that were asked about.
    memo: TransferMemo,
    nest_cost: NestCost,
    visitor: &'a mut FrameVisitor<'b, TcpChoice>,
}

impl FrameWalk<'_, '_> {
    fn excluded(&mut self, settled: PartialChoice) -> bool {
        self.visitor.prunes() && self.visitor.excludes(bound(self.task, self.framed, settled))
    }

    /// Lanes and packets, widest first.
    fn packets(&mut self) {
        let setup = &self.task.setup;
        // Widest first: they are the ones that exclude others.
        let mut all_lanes: Vec<u64> = space::lanes(setup).collect();
        all_lanes.reverse();
        for lanes in all_lanes {
            if self.excluded(PartialChoice { lanes, packet: None }) {
                continue;
            }
            for columns in space::columns(setup, self.framed) {
                let mut trees: Vec<u64> = space::trees(setup, self.framed, columns).collect();
                trees.reverse();
                for tree in trees {
                    if self.visitor.enough() {
                        return;
                    }
                    if !self.excluded(PartialChoice { lanes, packet: Some((columns, tree)) }) {
                        self.nests(lanes, columns, tree);
                    }
                }
            }
        }
    }

    /// Repeats and supplies.
    fn nests(&mut self, lanes: u64, columns: u64, tree: u64) {
        // Most first: what a budget cuts off are those that fetch more often.
        let mut all_repeats: Vec<u64> = space::repeats(self.framed, lanes).collect();
        all_repeats.reverse();
        for repeats in all_repeats {
            for supply in space::supplies(self.framed) {
                if self.visitor.enough() {
                    return;
                }
                let choice =
                    TcpChoice { lanes, columns, tree, repeats, supply: *supply, ..TcpChoice::open() };
                let nest = self.framed.nest(&choice);
                let checked =
                    nest.and_then(|nest| check_sizes(&self.task.setup, &nest, *supply).map(|()| nest));
                let checked = checked.and_then(|nest| Ok((nest, self.brought(&nest)?)));
                match checked {
                    Ok((nest, waits)) => self.orders(&nest, choice, waits),
                    Err(refusal) => self.visitor.refuse(refusal, 1),
                }
            }
        }
    }

    /// Cycles and energy of transfers from off-chip memory, of all parts.
    fn brought(&mut self, nest: &LoopNest) -> Result<TransferStalls, CandidateRefusal> {
        let frame = &self.framed.frame;
        let brought = brought(self.task, self.framed, nest, &mut self.memo)?;
        let events = energy_fj(self.task.setup.machine, &brought.all_counts(self.task, frame));
        let events_fj = events.iter().fold(0, |all: u64, part| all.plus_cost(*part));
        Ok(TransferStalls { cycles: brought.all_cycles(self.task, frame), events_fj })
    }

    /// Orders of loops and of sums that leave, widths of fetches and writes, contexts of loads. Orders that
    /// cost the same are asked once.
    fn orders(&mut self, nest: &LoopNest, choice: TcpChoice, waits: TransferStalls) {
        let setup = &self.task.setup;
        self.nest_cost.price(setup, self.framed.frame.commands(), nest, choice);
        for class in &self.nest_cost.classes {
            for drained in &self.nest_cost.drains {
                if let Err(refusal) = check_drain(setup, nest, drained.drain, class.groups.open) {
                    self.visitor.refuse(refusal, class.orders().len());
                    continue;
                }
                let events_fj = drained.events_fj.plus_cost(class.reads_fj).plus_cost(waits.events_fj);
                let ordered = OrderedNest {
                    nest,
                    class,
                    drained,
                    events_fj,
                    waits_cycles: waits.cycles,
                    cycle_fj: self.cycle_fj,
                };
                ordered.widths(&self.nest_cost, TcpChoice { drain: drained.drain, ..choice }, self.visitor);
            }
        }
    }
}

/// What transfers take.
#[derive(Clone, Copy)]
struct TransferStalls {
    cycles: u64,
    events_fj: u64,
}

/// A nest whose loops have one of some orders that cost the same, and whose sums leave in one.
struct OrderedNest<'a> {
    nest: &'a LoopNest,
    class: &'a OrderClass,
    drained: &'a DrainCost,
    /// Energy of all events of all parts.
    events_fj: u64,
    waits_cycles: u64,
    cycle_fj: u64,
}

impl OrderedNest<'_> {
    fn widths(&self, nest_cost: &NestCost, choice: TcpChoice, visitor: &mut FrameVisitor<'_, TcpChoice>) {
        let (orders, groups) = (self.class.orders(), self.class.groups.groups);
        for (width, fetched) in nest_cost.fetches.iter().enumerate() {
            if let Err(refusal) = self.class.check(width, fetched, self.nest, &choice) {
                visitor.refuse(refusal, orders.len());
                continue;
            }
            let front = BatchCycles::new(self.drained.pace.front_cycles(fetched.cycles), groups);
            for (commit_bytes, behind_cycles) in self.drained.commits() {
                let behind = BatchCycles::new(*behind_cycles, groups);
                let contract = self.drained.pace.total_cycles(front, behind);
                let others = contract.plus_cost(self.drained.bridge_cycles);
                for (loading, load) in LOADINGS.into_iter().zip(&nest_cost.loads) {
                    let load = match load {
                        Ok(load) => *load,
                        Err(refusal) => {
                            visitor.refuse(*refusal, orders.len());
                            continue;
                        }
                    };
                    let each = others.plus_cost(load);
                    let cycles = each.times_cost(nest_cost.parts).plus_cost(self.waits_cycles);
                    let energy_fj = self.events_fj.plus_cost(self.cycle_fj.times_cost(cycles));
                    let (fetch_bytes, commit_bytes) = (fetched.bytes, *commit_bytes);
                    visitor.add_alike(cycles, energy_fj, orders, |order| TcpChoice {
                        order: *order,
                        fetch_bytes,
                        commit_bytes,
                        loading,
                        ..choice
                    });
                }
            }
        }
    }
}
