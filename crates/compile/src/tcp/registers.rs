//! Registers that a run is told: rows and their parts, keys, and what holds of a prompt.

use tilewright_base::invariant::{OrBroken, to_index};
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_lower::kernels::pass::signed;

use super::build::{Mode, Part};
use super::emit::Emitter;
use super::image::n;
use super::plan::Plan;
use super::teams::Teams;
use crate::kernel::{Kernel, Kernels};

/// What a run is told, beside tables.
#[derive(Clone, Debug)]
pub struct Registers {
    /// Rows of a slice.
    pub rows: Count,
    /// Parts of the rows that are exchanged one after the other, so that one part is on its way while the
    /// next is made.
    pub parts: Vec<Part>,
    /// Tokens whose residual a processing element has, padding included.
    pub own_tokens: Count,
    /// Above zero if every place of a prompt's rows has a token.
    pub whole: Count,
    /// Above zero if some place of a prompt's rows has none.
    pub ragged: Count,
    /// Above zero if logits are wanted: not of the first parts of a prompt.
    pub logits: Count,
    /// By processing element, tokens from its first on, for vectors of all tokens.
    pub counted: Vec<Count>,
    /// Of a prompt whose keys the register files hold one half at a time.
    pub halves: Option<Halves>,
    keys: Vec<Keys>,
}

/// Keys that queries are multiplied with.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// Rows of them in a slice.
    pub rows: Count,
    /// Eights of these rows.
    pub rounds: Count,
    /// How many keys there are.
    pub context: Count,
    /// The first of the rows.
    pub first_row: u64,
}

impl Registers {
    /// Registers of a program.
    pub(super) fn new(emit: &mut Emitter<'_>, kernels: &Kernels, plan: &Plan, mode: Mode) -> Registers {
        let keys = by_sequence(emit, plan, mode);
        let slices = emit.machine.pe.slices;
        let (rows, own_tokens) = match mode {
            Mode::Prefill => {
                let rows = emit.register("rows", 1, signed(plan.prefill_rows));
                let own = slices / plan.options.pes / plan.features.bands;
                (rows, emit.register("own_tokens", signed(own), signed(plan.prefill_rows * own)))
            }
            Mode::Decode => (n(1), n(1)),
            Mode::Batch => {
                let rows = plan.options.batch_rows(slices);
                (n(rows), n(rows * (slices / plan.options.pes).max(1)))
            }
        };
        let [whole, ragged, logits] = flags(emit, mode);
        let halves = Halves::new(emit, plan, kernels, mode);
        let parts = match mode {
            Mode::Prefill if plan.options.pes > 1 => parts(emit, plan),
            _ => vec![Part { rows, first: 0, step: 1 }],
        };
        let counted = (0..plan.options.pes).filter(|_| kernels.pools()).map(|pe| match mode {
            Mode::Prefill => emit.register(&format!("counted{pe}"), 0, signed(plan.options.context)),
            Mode::Decode | Mode::Batch => n(1),
        });
        let counted = counted.collect();
        Registers { rows, parts, own_tokens, whole, ragged, logits, counted, halves, keys }
    }

    /// All rows.
    pub fn all_rows(&self) -> Part {
        Part { rows: self.rows, first: 0, step: 1 }
    }

    /// All keys of a sequence of the batch, or of the one that there is.
    pub fn keys(&self, sequence: u64) -> Keys {
        *self.keys.get(to_index(sequence)).or_broken("every sequence of a batch has keys")
    }
}

/// Parts of the rows of a prefill program, each with its register.
fn parts(emit: &mut Emitter<'_>, plan: &Plan) -> Vec<Part> {
    let step = plan.choices.parts;
    let part = |first: u64| {
        let rows = signed(Part::rows_of(first, plan.prefill_rows, step));
        Part { rows: emit.register(&format!("rows{first}"), 1, rows), first, step }
    };
    (0..step.min(plan.prefill_rows)).map(part).collect()
}

/// Registers of keys for each sequence of a batch, or for the one that there is.
fn by_sequence(emit: &mut Emitter<'_>, plan: &Plan, mode: Mode) -> Vec<Keys> {
    let most = signed;
    let rows = plan.options.context.div_ceil(emit.machine.pe.slices);
    let most_rounds = rows.div_ceil(emit.machine.ce.lanes);
    let sequences = if mode == Mode::Batch { plan.options.batch } else { 1 };
    let registers = (0..sequences).map(|sequence| {
        let name = |name: &str| match mode {
            Mode::Batch => format!("{name}{sequence}"),
            Mode::Prefill | Mode::Decode => name.to_string(),
        };
        let rows = emit.register(&name("key_rows"), 1, most(rows));
        let context = emit.register(&name("context"), 1, most(plan.options.context));
        let rounds = match mode {
            Mode::Prefill => n(most_rounds),
            Mode::Decode | Mode::Batch => emit.register(&name("key_rounds"), 1, most(most_rounds)),
        };
        Keys { rows, rounds, context, first_row: 0 }
    });
    registers.collect()
}

/// Registers of a prefill program that are zero or one: all rows are whole, they are not, logits are wanted.
fn flags(emit: &mut Emitter<'_>, mode: Mode) -> [Count; 3] {
    ["whole", "ragged", "logits"].map(|name| match mode {
        Mode::Prefill => emit.register(name, 0, 1),
        Mode::Decode | Mode::Batch => n(1),
    })
}

/// A prompt whose keys the register files hold one half at a time: values are weighted half by half, and
/// their sums added.
#[derive(Clone, Copy, Debug)]
pub struct Halves {
    /// Rows of keys of each half.
    pub rows: [Count; 2],
    /// Keys of the second.
    pub context: Count,
    /// Above zero if the first has all keys, and if not.
    pub is_one: Count,
    /// The latter.
    pub is_two: Count,
}

impl Halves {
    /// For the attention of a prompt that needs them.
    pub(super) fn new(emit: &mut Emitter<'_>, plan: &Plan, kernels: &Kernels, mode: Mode) -> Option<Halves> {
        let attends = |kernel: &Kernel| match kernel {
            Kernel::Attend { heads, .. } => Some(*heads),
            _ => None,
        };
        let heads = kernels.kernels.iter().find_map(attends).filter(|_| mode == Mode::Prefill)?;
        let teams = Teams::new(emit.machine, plan.options.cache, &heads, plan.most_key_rows(emit.machine));
        let most = signed;
        teams.is_halved.then(|| Halves {
            rows: HALVES.map(|name| emit.register(name, 1, most(teams.held_rows))),
            context: emit.register("second_context", 1, most(plan.options.context)),
            is_one: emit.register("one_half", 0, 1),
            is_two: emit.register("two_halves", 0, 1),
        })
    }
}

/// Rows of keys of each half.
const HALVES: [&str; 2] = ["first_key_rows", "second_key_rows"];

/// What a run with so many keys tells of its halves.
pub(crate) fn told_halves(plan: &Plan, slices: u64, context: u64) -> [(&'static str, u64); 5] {
    let (rows, held) = (context.div_ceil(slices), plan.held_rows);
    let (first, second) = (rows.min(held), rows.saturating_sub(held));
    [
        (HALVES[0], first),
        (HALVES[1], second.max(1)),
        ("second_context", context.saturating_sub(held.saturating_mul(slices)).max(1)),
        ("one_half", u64::from(second == 0)),
        ("two_halves", u64::from(second > 0)),
    ]
}
