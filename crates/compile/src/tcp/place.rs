//! Where everything lies in the data memory of a slice, by what is live together.
//!
//! What must keep its bytes from program to program comes first, in the same place in all of them. What
//! others write comes next. Rows, scores and sums follow each other and share one place.

use tilewright_num::Dtype;

use super::build::{Build, Mode};
use super::image::bytes;
use super::plan::weights_of;
use super::teams::Teams;
use crate::CompileError;
use crate::kernel::Kernel;

/// Fewer slots are not tried.
const FEWEST_SLOTS: u64 = 2;

/// Places in every slice's data memory, and the bytes of each.
#[derive(Clone, Debug, Default)]
pub struct Areas {
    next: u64,
}

impl Areas {
    /// Bytes of a slice.
    pub fn take(&mut self, bytes: u64) -> u64 {
        let at = self.next;
        // Sizes come from models: more than 64 bits is more than any memory has, which is refused.
        self.next = at.saturating_add(bytes.next_multiple_of(64));
        at
    }
}

/// Names of everything in data memory.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The residual, f32, by features.
    pub x: u64,
    /// The normalised residual, by features.
    pub normal: u64,
    /// Sums of combinations, by features: of all heads, or partial ones.
    pub y: u64,
    /// Partial sums of all processing elements, for exchanges in turns.
    pub received: [u64; 2],
    /// Sums of all chips, for exchanges in turns.
    pub peers: [u64; 2],
    /// Their sum, f32.
    pub sum: u64,
    /// The normalised residual of own tokens.
    pub normal_own: u64,
    /// Two words a token.
    pub squares: u64,
    /// Two words a token.
    pub roots: u64,
    /// Gains and scales.
    pub constants: u64,
    /// What a unit of each own token is worth: two words.
    pub worths: u64,
    /// What a unit of each row is worth: two words.
    pub row_worths: u64,
    /// The greatest magnitude of each row: two words.
    pub peaks: u64,
    /// What attention gives, as floats.
    pub attended_floats: u64,
    /// What an activation gives, as floats.
    pub active_floats: u64,
    /// Sines, cosines, minus sines of each row.
    pub angles: u64,
    /// Projected rows, f32.
    pub rows: u64,
    /// Queries.
    pub queries: u64,
    /// New keys and values.
    pub fresh: u64,
    /// Cached keys and values, dealt out by position.
    pub cached: u64,
    /// The same for the next sequence.
    pub cached_next: u64,
    /// Queries of all sequences.
    pub all_queries: u64,
    /// Queries of the heads of the slice's team, of all teams' tokens.
    pub dealt_queries: u64,
    /// What attention gives for them.
    pub dealt_attended: u64,
    /// Values of two keys side by side.
    pub paired: u64,
    /// Sums of weighted values of the first half of the keys.
    pub first_half: u64,
    /// What attention gives.
    pub attended: u64,
    /// What an activation gives.
    pub active: u64,
    /// Scores, f32.
    pub scores: u64,
    /// Weights of the values.
    pub chances: u64,
    /// Maxima, and sums.
    pub maxima: u64,
    /// Sums.
    pub sums: u64,
    /// Ones of the cache's type, and of partial sums: a packet each.
    pub ones: u64,
    /// The latter.
    pub sum_ones: u64,
    /// Logits of a fill, two of them in turns.
    pub logits: [u64; 2],
    /// Slots for weights.
    pub slots: Vec<u64>,
    /// The last row of what attention gives, where some of its places have no sequence of the batch.
    pub idle: Option<(u64, u64)>,
    /// First byte past what is in the same place in all programs.
    pub kept_end: u64,
    /// First byte past everything.
    pub end: u64,
}

impl Places {
    /// Names of all places, with their first bytes; those that are not used are at 0 with the residual.
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        let mut all = vec![
            ("residual", self.x),
            ("constants", self.constants),
            ("cached", self.cached),
            ("cached_next", self.cached_next),
            ("normal", self.normal),
            ("squares", self.squares),
            ("roots", self.roots),
            ("worths", self.worths),
            ("row_worths", self.row_worths),
            ("peaks", self.peaks),
            ("angles", self.angles),
            ("queries", self.queries),
            ("fresh", self.fresh),
            ("all_queries", self.all_queries),
            ("dealt_queries", self.dealt_queries),
            ("dealt_attended", self.dealt_attended),
            ("paired", self.paired),
            ("first_half", self.first_half),
            ("attended", self.attended),
            ("active", self.active),
            ("attended_floats", self.attended_floats),
            ("active_floats", self.active_floats),
            ("logits0", self.logits[0]),
            ("logits1", self.logits[1]),
            ("maxima", self.maxima),
            ("sums", self.sums),
            ("received0", self.received[0]),
            ("received1", self.received[1]),
            ("peers0", self.peers[0]),
            ("peers1", self.peers[1]),
            ("rows", self.rows),
            ("partial", self.y),
            ("sum", self.sum),
            ("normal_own", self.normal_own),
            ("scores", self.scores),
            ("chances", self.chances),
        ];
        all.extend(self.slots.iter().map(|at| ("weights", *at)));
        all.retain(|(name, at)| *at > 0 || *name == "residual");
        all
    }
}

/// The greatest sizes of a model.
struct Widths {
    /// Columns of all parts of a projection.
    projected: u64,
    /// Elements of a row that is contracted.
    contracted: u64,
    /// Heads, and their columns.
    heads: u64,
    queries: u64,
    /// How slices share the heads of a prompt.
    teams: Teams,
    /// What attention gives is shorter than what a combination contracts: the rest must stay zero.
    padded: bool,
    /// Bytes and groups of a fill.
    fill_bytes: u64,
    fill_groups: u64,
}

impl Widths {
    fn new(build: &Build<'_>) -> Widths {
        let (plan, kernels) = (build.plan, &build.kernels.kernels);
        let projected = kernels.iter().filter(|kernel| matches!(kernel, Kernel::Project { .. }));
        let projected = projected.filter_map(weights_of).map(|parts| plan.parts(build.machine, &parts).width);
        let heads = kernels.iter().find_map(|kernel| match kernel {
            Kernel::Rotate { heads, .. } => Some(*heads),
            _ => None,
        });
        let queries = heads.map_or(0, |heads| heads.query_width());
        let fills = || plan.packed.iter().flat_map(|packed| &packed.fills);
        Widths {
            projected: projected.max().unwrap_or(0),
            contracted: plan.packed.iter().map(|packed| packed.row).max().unwrap_or(0),
            heads: heads.map_or(0, |heads| heads.kv * heads.slots),
            queries: plan.options.whole_rows(build.machine, queries),
            teams: heads.map_or(Teams::one(build.machine), |heads| super::teams::of(build, &heads)),
            // A packet's end, or places without a head.
            padded: plan.options.whole_rows(build.machine, queries) > queries
                || heads.is_some_and(|heads| heads.slots > heads.group),
            fill_bytes: fills().map(|fill| fill.slice_bytes).max().unwrap_or(0),
            fill_groups: fills().map(|fill| fill.groups).max().unwrap_or(0),
        }
    }
}

/// Places of a program.
///
/// # Errors
/// More than data memory holds.
pub(super) fn place(build: &Build<'_>) -> Result<Places, CompileError> {
    // One slot in use, the others on their way, as many as data memory holds.
    let most = build.plan.choices.slots.max(1);
    let mut placed = with_slots(build, most);
    for slots in (FEWEST_SLOTS.min(most)..most).rev() {
        if placed.is_ok() {
            break;
        }
        placed = with_slots(build, slots);
    }
    placed
}

fn with_slots(build: &Build<'_>, slots: u64) -> Result<Places, CompileError> {
    let (mut areas, mut at) = (Areas::default(), Places::default());
    let widths = Widths::new(build);
    kept(build, &widths, slots, &mut areas, &mut at);
    at.kept_end = areas.next;
    values(build, &widths, &mut areas, &mut at);
    at.idle = idle(build, &widths, &at);
    shared(build, &widths, &mut areas, &mut at);
    at.end = areas.next;
    let capacity = build.machine.dm.capacity_bytes;
    if at.end > capacity {
        return Err(CompileError::Dm { what: "values and weights", needed: at.end, capacity });
    }
    Ok(at)
}

/// What attention gives in places without a sequence: no run writes it.
fn idle(build: &Build<'_>, widths: &Widths, at: &Places) -> Option<(u64, u64)> {
    let (rows, slices) = (build.most_rows(), build.machine.pe.slices);
    if build.mode != Mode::Batch || rows == 1 || build.sequences().is_multiple_of(slices) {
        return None;
    }
    let (place, dtype) = match build.dtype() {
        Dtype::I8 if attends(build, false) => (at.attended_floats, build.between()),
        dtype => (at.attended, dtype),
    };
    let row = bytes(dtype, widths.queries);
    Some((place + (rows - 1) * row, place + rows * row))
}

/// In the same place in all programs: slices without columns keep their zeros, and what is masked stays a
/// number.
fn kept(build: &Build<'_>, widths: &Widths, slots: u64, areas: &mut Areas, at: &mut Places) {
    let (plan, cache) = (build.plan, build.cache());
    let rows = plan.most_rows(build.machine.pe.slices);
    let of_row = (build.machine.pe.slices / plan.features.bands).max(1);
    let most_own = rows * (of_row / plan.options.pes).max(1);
    at.x = areas.take(bytes(Dtype::F32, most_own * plan.features.share));
    at.constants = areas.take(plan.constants_bytes());
    if widths.padded {
        let elements = rows.max(build.machine.ce.lanes) * widths.queries;
        if attends(build, false) && build.dtype() == Dtype::I8 {
            at.attended_floats = areas.take(bytes(build.between(), elements));
        }
        if attends(build, true) || build.dtype() != Dtype::I8 {
            at.attended = areas.take(bytes(build.dtype(), elements));
        }
    }
    let tokens = rows * of_row;
    at.normal = areas.take(bytes(build.dtype(), tokens * plan.features.share));
    let cached = plan.cache_row * build.most_key_rows();
    at.cached = areas.take(cached);
    // Any bits are a number if they are integers; else they must be a cache's in all programs.
    let next = plan.options.batch > 1 && (build.mode == Mode::Batch || cache != Dtype::I8);
    let next_bytes = if next { cached } else { 0 };
    if cache != Dtype::I8 {
        at.cached_next = areas.take(next_bytes);
    }
    at.slots = (0..slots).map(|_| areas.take(widths.fill_bytes)).collect();
    if cache == Dtype::I8 {
        at.cached_next = areas.take(next_bytes);
    }
}

/// Whether there is attention whose result has a scale that was found beforehand, or one without.
fn attends(build: &Build<'_>, known: bool) -> bool {
    build.kernels.kernels.iter().any(|kernel| match kernel {
        Kernel::Attend { out, .. } => build.kernels.amax.contains_key(out) == known,
        _ => false,
    })
}

/// What kernels leave to each other.
fn values(build: &Build<'_>, widths: &Widths, areas: &mut Areas, at: &mut Places) {
    let (plan, dtype, cache) = (build.plan, build.dtype(), build.cache());
    let (rows, lanes, share) = (build.most_rows(), build.machine.ce.lanes, plan.features.share);
    let own = rows * build.own();
    at.squares = areas.take(bytes(Dtype::F32, 2 * own));
    at.roots = areas.take(bytes(Dtype::F32, 2 * own));
    at.worths = areas.take(bytes(Dtype::F32, 2 * own));
    at.row_worths = areas.take(bytes(Dtype::F32, 2 * rows));
    at.peaks = areas.take(bytes(Dtype::F32, 2 * rows));
    at.angles = areas.take(plan.angles_row * rows);
    at.queries = areas.take(bytes(cache, rows.max(lanes) * widths.queries));
    at.fresh = areas.take(plan.cache_row * rows);
    if build.mode == Mode::Batch {
        at.all_queries = areas.take(bytes(cache, widths.queries) * build.machine.pe.slices * rows);
    }
    if !widths.padded || dtype == Dtype::I8 && !attends(build, true) {
        at.attended = areas.take(bytes(dtype, rows.max(lanes) * widths.queries));
    }
    if dtype == Dtype::I8 && !widths.padded && attends(build, false) {
        at.attended_floats = areas.take(bytes(build.between(), rows.max(lanes) * widths.queries));
    }
    let queries = lanes * widths.teams.deep;
    at.maxima = areas.take(bytes(Dtype::F32, 2 * widths.heads.max(queries)));
    at.sums = areas.take(bytes(Dtype::F32, 2 * widths.heads.max(queries)));
    let packet = 2 * build.machine.network.flit_bytes;
    [at.ones, at.sum_ones] = [areas.take(packet), areas.take(packet)];
    // Others write here while this processing element is still at work on anything else.
    if build.pes() > 1 {
        let slot = bytes(build.exchanged(), own * share).next_multiple_of(64) * build.pes();
        at.received = [areas.take(slot), areas.take(if build.deals_tokens() { 0 } else { slot })];
    }
    if build.chips() > 1 {
        let slots = super::peers::slot(build) * build.chips();
        at.peers = [areas.take(slots), areas.take(slots)];
    }
}

/// What attention needs, and what all other kernels need, share one place: one is over before the other
/// begins. Rows are read before there are sums. Some partial sums are still being sent while others are added
/// up.
fn shared(build: &Build<'_>, widths: &Widths, areas: &mut Areas, at: &mut Places) {
    let (plan, share, rows) = (build.plan, build.plan.features.share, build.most_rows());
    let mut together = Together { areas, first: 0, end: 0 };
    (together.first, together.end) = (together.areas.next, together.areas.next);
    let projected = bytes(build.between(), rows * widths.projected);
    [at.rows] = together.take([projected]);
    let own = rows * build.own() * share;
    let (sum, normal) = (bytes(Dtype::F32, own), bytes(build.dtype(), own));
    let y = bytes(build.exchanged(), rows * build.groups() * share);
    [at.y, at.sum, at.normal_own] = together.take([y, sum, normal]);
    // Behind rows, which it is made of, and sums, which are made of it.
    let before = together.end - together.first;
    let active = bytes(plan.options.activated(), rows * widths.contracted);
    let floats = if plan.options.activated() == Dtype::I8 { rows * widths.contracted } else { 0 };
    let floats = bytes(build.between(), floats);
    // Logits are made when the last activation is over.
    let spoken = if build.mode == Mode::Batch { rows } else { 1 };
    let logits = bytes(Dtype::F32, spoken * widths.fill_groups * build.machine.ce.lanes).next_multiple_of(64);
    [_, at.active, at.logits[0]] = together.take([before, active, floats.max(2 * logits)]);
    at.logits[1] = at.logits[0] + logits;
    at.active_floats = if floats > 0 { at.logits[0] } else { 0 };
    match build.mode {
        Mode::Prefill => attention(build, widths, &mut together, at),
        Mode::Decode | Mode::Batch => {
            let (scores, cache) = (build.most_key_rows() * widths.heads, build.cache());
            [at.scores, at.chances] = together.take([bytes(Dtype::F32, scores), bytes(cache, scores)]);
        }
    }
    together.areas.next = together.end;
}

/// What the attention of a prompt needs.
fn attention(build: &Build<'_>, widths: &Widths, together: &mut Together<'_>, at: &mut Places) {
    let (lanes, teams, cache) = (build.machine.ce.lanes, widths.teams, build.cache());
    let (queries, depth) = (lanes * teams.deep, widths.queries / widths.heads.max(1));
    let chances = build.most_key_rows().min(teams.held_rows) * build.machine.pe.slices * queries;
    let dealt = if teams.count > 1 { lanes * widths.queries } else { 0 };
    let (_, out, _) = build.attended();
    let paired = if teams.pairs { build.most_key_rows() * teams.count * depth } else { 0 };
    let halves = if teams.is_halved { bytes(Dtype::I32, queries * depth) } else { 0 };
    [at.chances, at.dealt_queries, at.dealt_attended, at.paired, at.first_half] = together.take([
        bytes(cache, chances),
        bytes(cache, dealt),
        bytes(out, dealt),
        bytes(cache, paired),
        halves,
    ]);
}

/// Groups of places that share one: each begins where the first does.
struct Together<'a> {
    areas: &'a mut Areas,
    first: u64,
    end: u64,
}

impl Together<'_> {
    fn take<const N: usize>(&mut self, sizes: [u64; N]) -> [u64; N] {
        self.areas.next = self.first;
        let places = sizes.map(|size| self.areas.take(size));
        self.end = self.end.max(self.areas.next);
        places
    }
}
