//! A nest as far as it costs the same in every order of its loops, so that millions of candidates share it.
//!
//! The order of loops decides how steps are grouped, which rows of the register files are read again, and
//! what is legal. Stages, all other events and the widths that there are depend on the nest, and on the order
//! in which sums leave. Nothing here allocates once the lists have grown.

use tilewright_base::invariant::OrBroken;
use tilewright_tcp_cost::Setup;
use tilewright_tcp_cost::cycles::commit::CommitStage;
use tilewright_tcp_cost::cycles::fetch::FetchStage;
use tilewright_tcp_cost::cycles::{ContractionPace, command_cycles, commit, fetch};
use tilewright_tcp_cost::energy::{EnergyCounts, energy_fj};
use tilewright_tcp_isa::program::exec::Drain;

use crate::cost_math::CostMath;
use crate::refusal::CandidateRefusal;
use crate::tcp::cost::{CandidateCommands, SumGroups, groups, load};
use crate::tcp::events::{counts, register_reads};
use crate::tcp::legality::{BankPattern, check_loading};
use crate::tcp::point::{LoadContext, LoopNest, ORDERS, StreamSupply, TcpChoice};
use crate::tcp::space::{self, MOST_WIDTHS};

/// Who may load.
pub const LOADINGS: [LoadContext; 2] = [LoadContext::Main, LoadContext::Sub];

/// What all orders of a nest share.
#[derive(Clone, Debug)]
pub struct NestCost {
    /// Commands that are repeated.
    pub parts: u64,
    /// Widths of fetches.
    pub fetches: Vec<FetchWidth>,
    /// Orders in which sums may leave.
    pub drains: Vec<DrainCost>,
    /// Cycles of loading with each of [`LOADINGS`], or why it cannot load.
    pub loads: [Result<u64, CandidateRefusal>; 2],
    /// Orders of loops that cost the same, and are legal or not together: the first of each set stands for
    /// it.
    pub classes: Vec<OrderClass>,
    /// The orders that are candidates at all, and what was asked for to find them.
    orders: Vec<u8>,
    orders_of: Option<([bool; 4], bool)>,
    array_byte_fj: u64,
    cached_byte_fj: u64,
}

/// A width of fetches.
#[derive(Clone, Copy, Debug)]
pub struct FetchWidth {
    /// Bytes.
    pub bytes: u64,
    /// Cycles of the fetch unit.
    pub cycles: u64,
    banked: BankPattern,
}

/// Orders of loops that nothing tells apart.
#[derive(Clone, Copy, Debug)]
pub struct OrderClass {
    /// How steps are grouped.
    pub groups: SumGroups,
    /// Energy of what all slices read from register files in all parts.
    pub reads_fj: u64,
    /// The widths of fetches that may not be: a bit for each.
    refused: u64,
    orders: [u8; ORDERS.len()],
    count: usize,
}

impl OrderClass {
    /// The orders.
    pub fn orders(&self) -> &[u8] {
        &self.orders[..self.count]
    }

    /// The rule of the banks for a width of fetches, by its number.
    ///
    /// # Errors
    /// As [`BankPattern::check`].
    pub fn check(
        &self,
        width: usize,
        fetched: &FetchWidth,
        nest: &LoopNest,
        choice: &TcpChoice,
    ) -> Result<(), CandidateRefusal> {
        if self.refused >> width & 1 == 0 {
            return Ok(());
        }
        fetched
            .banked
            .check(nest, &TcpChoice { order: self.orders[0], fetch_bytes: fetched.bytes, ..*choice })
    }
}

/// What all orders of a nest share whose sums leave in the same way.
#[derive(Clone, Copy, Debug)]
pub struct DrainCost {
    /// How they leave.
    pub drain: Drain,
    /// The contraction.
    pub pace: ContractionPace,
    /// The copy behind it.
    pub bridge_cycles: u64,
    /// Events of all parts but reads of register files.
    pub events_fj: u64,
    commits: [(u64, u64); MOST_WIDTHS],
    widths: usize,
}

impl DrainCost {
    /// Widths of writes, with the cycles of all stages behind the sums.
    pub fn commits(&self) -> &[(u64, u64)] {
        &self.commits[..self.widths]
    }
}

impl NestCost {
    /// Nothing yet.
    pub fn new(setup: &Setup<'_>) -> NestCost {
        let each_fj = |counts: EnergyCounts| all_fj(setup, &counts);
        NestCost {
            parts: 1,
            fetches: Vec::new(),
            drains: Vec::new(),
            loads: [Ok(0); 2],
            classes: Vec::new(),
            orders: Vec::new(),
            orders_of: None,
            array_byte_fj: each_fj(EnergyCounts { trf_array_bytes: 1, ..EnergyCounts::default() }),
            cached_byte_fj: each_fj(EnergyCounts { trf_cached_bytes: 1, ..EnergyCounts::default() }),
        }
    }

    /// Prices another nest; order and widths of the choice do not matter.
    pub fn price(&mut self, setup: &Setup<'_>, parts: u64, nest: &LoopNest, choice: TcpChoice) {
        self.parts = parts;
        self.loads = LOADINGS.map(|loading| {
            check_loading(nest, loading)?;
            Ok(command_cycles(setup.machine, &load(setup, nest, loading)).total_cycles)
        });
        self.fetches.clear();
        self.drains.clear();
        for drain in space::drains(nest) {
            let choice = TcpChoice { drain, ..choice };
            let commands = CandidateCommands::unchecked(setup, nest, &choice);
            let fetch = commands.contract.fetch.filter(|_| self.fetches.is_empty());
            if let Some(fetched) = fetch {
                self.fetches.extend(space::fetch_widths(setup, nest).map(|bytes| FetchWidth {
                    bytes,
                    cycles: fetch::stream_cycles(setup.machine, &FetchStage { read_bytes: bytes, ..fetched }),
                    banked: BankPattern::new(setup, nest, bytes),
                }));
            }
            self.drains.extend(drained(setup, parts, nest, &choice, &commands));
        }
        self.sort_orders(setup, nest, choice);
    }

    /// Sorts the orders of the nest by what they cost.
    fn sort_orders(&mut self, setup: &Setup<'_>, nest: &LoopNest, choice: TcpChoice) {
        self.find_orders(nest, choice.supply);
        self.classes.clear();
        for order in &self.orders {
            let choice = TcpChoice { order: *order, ..choice };
            let groups = groups(nest, &choice);
            let reads_fj = self.reads_fj(setup, nest, &choice);
            let mut refused = 0;
            for (width, fetched) in self.fetches.iter().enumerate() {
                let choice = TcpChoice { fetch_bytes: fetched.bytes, ..choice };
                refused |= u64::from(fetched.banked.check(nest, &choice).is_err()) << width;
            }
            let same = |one: &&mut OrderClass| {
                (one.groups, one.reads_fj, one.refused) == (groups, reads_fj, refused)
            };
            match self.classes.iter_mut().find(same) {
                Some(class) => {
                    class.orders[class.count] = *order;
                    class.count += 1;
                }
                None => {
                    let orders = [*order; ORDERS.len()];
                    self.classes.push(OrderClass { groups, reads_fj, refused, orders, count: 1 });
                }
            }
        }
    }

    /// Nests whose loops of one iteration are the same have the same orders.
    fn find_orders(&mut self, nest: &LoopNest, supply: StreamSupply) {
        let long = ORDERS[0].map(|turn| nest.turn(turn, supply) > 1);
        let asked = (long, space::rings_inside(nest, supply));
        if self.orders_of.replace(asked) != Some(asked) {
            let all = 0..u8::try_from(ORDERS.len()).or_broken("orders have numbers of a byte");
            self.orders.clear();
            self.orders.extend(all.filter(|order| space::is_canonical(nest, *order, supply)));
        }
    }

    fn reads_fj(&self, setup: &Setup<'_>, nest: &LoopNest, choice: &TcpChoice) -> u64 {
        let (array_bytes, cached_bytes) = register_reads(setup, nest, choice);
        let array_fj = array_bytes.times_cost(self.array_byte_fj);
        let slice_fj = array_fj.plus_cost(cached_bytes.times_cost(self.cached_byte_fj));
        slice_fj.times_cost(setup.slices()).times_cost(self.parts)
    }
}

fn drained(
    setup: &Setup<'_>,
    parts: u64,
    nest: &LoopNest,
    choice: &TcpChoice,
    commands: &CandidateCommands,
) -> Option<DrainCost> {
    let machine = setup.machine;
    let pace = ContractionPace::new(machine, &commands.contract)?;
    let committed = commands.contract.commit?;
    let (mut commits, mut widths) = ([(0, 0); MOST_WIDTHS], 0);
    for (slot, write_bytes) in commits.iter_mut().zip(space::commit_widths(setup, nest, choice.drain)) {
        let cycles = commit::stream_cycles(machine, &CommitStage { write_bytes, ..committed });
        *slot = (write_bytes, pace.behind_cycles(cycles));
        widths += 1;
    }
    let counts = counts(setup, nest, choice, commands);
    let counts = EnergyCounts { trf_array_bytes: 0, trf_cached_bytes: 0, ..counts };
    let bridge = commands.bridge.as_ref();
    Some(DrainCost {
        drain: choice.drain,
        pace,
        bridge_cycles: bridge.map_or(0, |bridge| command_cycles(machine, bridge).total_cycles),
        events_fj: all_fj(setup, &counts).times_cost(parts),
        commits,
        widths,
    })
}

fn all_fj(setup: &Setup<'_>, counts: &EnergyCounts) -> u64 {
    energy_fj(setup.machine, counts).iter().fold(0, |all: u64, part| all.plus_cost(*part))
}
