//! A nest as far as it costs the same in every order of its loops, so that millions of candidates share it.
//!
//! The order of loops decides how steps are grouped, which rows of the register files are read again, and what is legal. Stages, all other
//! events and the widths that there are depend on the nest, and on the order in which sums leave. Nothing here allocates once the lists have grown.

use tilewright_tcp::Setup;
use tilewright_tcp::cost::commit::Commit;
use tilewright_tcp::cost::contraction::Drain;
use tilewright_tcp::cost::fetch::Fetch;
use tilewright_tcp::cost::{OpenPace, command_cycles, commit, fetch};
use tilewright_tcp::energy::{Counts, energy_fj};

use crate::refusal::Refusal;
use crate::tcp::cost::{Commands, load};
use crate::tcp::events::{counts, register_reads};
use crate::tcp::legality::check_loading;
use crate::tcp::point::{Choice, Loading, Nest};
use crate::tcp::space::{self, MOST_WIDTHS};

/// Who may load.
pub const LOADINGS: [Loading; 2] = [Loading::Main, Loading::Sub];

/// What all orders of a nest share.
#[derive(Clone, Debug)]
pub struct Priced {
    /// Commands that are repeated.
    pub parts: u64,
    /// Widths of fetches with their cycles.
    pub fetches: Vec<(u64, u64)>,
    /// Orders in which sums may leave.
    pub drains: Vec<Drained>,
    /// Cycles of loading with each of [`LOADINGS`], or why it cannot load.
    pub loads: [Result<u64, Refusal>; 2],
    array_byte_fj: u64,
    cached_byte_fj: u64,
}

/// What all orders of a nest share whose sums leave alike.
#[derive(Clone, Copy, Debug)]
pub struct Drained {
    /// How they leave.
    pub drain: Drain,
    /// The contraction.
    pub pace: OpenPace,
    /// The copy behind it.
    pub bridge_cycles: u64,
    /// Events of all parts but reads of register files.
    pub events_fj: u64,
    commits: [(u64, u64); MOST_WIDTHS],
    widths: usize,
}

impl Drained {
    /// Widths of writes, with the cycles of all stages behind the sums.
    pub fn commits(&self) -> &[(u64, u64)] {
        self.commits.get(..self.widths).unwrap_or_default()
    }
}

impl Priced {
    /// Nothing yet.
    pub fn new(setup: &Setup<'_>) -> Priced {
        let each_fj = |counts: Counts| all_fj(setup, &counts);
        Priced {
            parts: 1,
            fetches: Vec::new(),
            drains: Vec::new(),
            loads: [Ok(0); 2],
            array_byte_fj: each_fj(Counts { trf_array_bytes: 1, ..Counts::default() }),
            cached_byte_fj: each_fj(Counts { trf_cached_bytes: 1, ..Counts::default() }),
        }
    }

    /// Prices another nest, of a candidate with any order.
    pub fn price(&mut self, setup: &Setup<'_>, parts: u64, nest: &Nest, choice: Choice) {
        self.parts = parts;
        self.loads = LOADINGS.map(|loading| {
            check_loading(nest, loading)?;
            Ok(command_cycles(setup.machine, &load(setup, nest, loading)).total_cycles)
        });
        self.fetches.clear();
        self.drains.clear();
        for drain in space::drains(nest) {
            let choice = Choice { drain, ..choice };
            let commands = Commands::unchecked(setup, nest, &choice);
            let fetch = commands.contract.fetch.filter(|_| self.fetches.is_empty());
            if let Some(fetched) = fetch {
                self.fetches.extend(space::fetch_widths(setup, nest).map(|read_bytes| {
                    (read_bytes, fetch::stream_cycles(setup.machine, &Fetch { read_bytes, ..fetched }))
                }));
            }
            self.drains.extend(drained(setup, parts, nest, &choice, &commands));
        }
    }

    /// Energy of what all slices read from register files in all parts.
    pub fn reads_fj(&self, setup: &Setup<'_>, nest: &Nest, choice: &Choice) -> u64 {
        let (array_bytes, cached_bytes) = register_reads(setup, nest, choice);
        let array_fj = array_bytes.saturating_mul(self.array_byte_fj);
        let slice_fj = array_fj.saturating_add(cached_bytes.saturating_mul(self.cached_byte_fj));
        slice_fj.saturating_mul(setup.slices()).saturating_mul(self.parts)
    }
}

fn drained(
    setup: &Setup<'_>,
    parts: u64,
    nest: &Nest,
    choice: &Choice,
    commands: &Commands,
) -> Option<Drained> {
    let machine = setup.machine;
    let pace = OpenPace::new(machine, &commands.contract)?;
    let committed = commands.contract.commit?;
    let (mut commits, mut widths) = ([(0, 0); MOST_WIDTHS], 0);
    for (slot, write_bytes) in commits.iter_mut().zip(space::commit_widths(setup, nest, choice.drain)) {
        let cycles = commit::stream_cycles(machine, &Commit { write_bytes, ..committed });
        *slot = (write_bytes, pace.behind_cycles(cycles));
        widths += 1;
    }
    let counts = counts(setup, nest, choice, commands);
    let counts = Counts { trf_array_bytes: 0, trf_cached_bytes: 0, ..counts };
    let bridge = commands.bridge.as_ref();
    Some(Drained {
        drain: choice.drain,
        pace,
        bridge_cycles: bridge.map_or(0, |bridge| command_cycles(machine, bridge).total_cycles),
        events_fj: all_fj(setup, &counts).saturating_mul(parts),
        commits,
        widths,
    })
}

fn all_fj(setup: &Setup<'_>, counts: &Counts) -> u64 {
    energy_fj(setup.machine, counts).iter().fold(0, |all: u64, part| all.saturating_add(*part))
}
