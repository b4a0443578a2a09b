//! Registers that a run is told: rows of keys, keys, and what holds of a prompt.

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_lower::kernels::pass::signed;

use super::build::Mode;
use super::emit::Emitter;
use super::image::n;
use super::plan::Plan;
use super::teams::Teams;
use crate::kernel::{Kernel, Kernels};

/// Rows of keys, eights of them, and keys: registers for each sequence of a batch, or for the one that there
/// is.
pub(super) fn by_sequence(emit: &mut Emitter<'_>, machine: &Tcp, plan: &Plan, mode: Mode) -> Vec<[Count; 3]> {
    let most = signed;
    let rows = plan.options.context.div_ceil(machine.pe.slices);
    let rounds = rows.div_ceil(machine.ce.lanes);
    let sequences = if mode == Mode::Batch { plan.options.batch } else { 1 };
    let registers = (0..sequences).map(|sequence| {
        let name = |name: &str| match mode {
            Mode::Batch => format!("{name}{sequence}"),
            Mode::Prefill | Mode::Decode => name.to_string(),
        };
        let key_rows = emit.register(&name("key_rows"), 1, most(rows));
        let context = emit.register(&name("context"), 1, most(plan.options.context));
        let key_rounds = match mode {
            Mode::Prefill => n(rounds),
            Mode::Decode | Mode::Batch => emit.register(&name("key_rounds"), 1, most(rounds)),
        };
        [key_rows, key_rounds, context]
    });
    registers.collect()
}

/// Registers of a prefill program that are zero or one: all rows are whole, they are not, logits are wanted.
pub(super) fn flags(emit: &mut Emitter<'_>, mode: Mode) -> [Count; 3] {
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
