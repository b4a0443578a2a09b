//! The same space without cleverness: every choice of a frame, one after the other, each asked every question. The judge of the search.

use tilewright_tcp::energy::energy_fj;

use crate::refusal::Refusal;
use crate::tcp::brought::{Memo, brought};
use crate::tcp::cost::{Commands, columns};
use crate::tcp::events::{counts, energy};
use crate::tcp::legality::{check_banks, check_loading, check_sizes};
use crate::tcp::nest::Framed;
use crate::tcp::point::{Choice, Loading, ORDERS};
use crate::tcp::space;
use crate::tcp::task::Task;

/// Takes a choice with its cycles and energy, or why it is refused.
pub type Visit<'a> = dyn FnMut(&Choice, Result<(u64, u64), Refusal>) + 'a;

/// Calls `visit` with every choice of a frame and its cycles and energy, or why it is refused.
pub fn every_choice(task: &Task<'_>, framed: &Framed, visit: &mut Visit<'_>) {
    let setup = &task.setup;
    for lanes in space::lanes(setup) {
        for columns in space::columns(setup, framed) {
            for tree in space::trees(setup, framed, columns) {
                for repeats in space::repeats(framed, lanes) {
                    for supply in space::supplies(framed) {
                        let choice = Choice {
                            lanes,
                            columns,
                            tree,
                            repeats,
                            supply: *supply,
                            order: 0,
                            fetch_bytes: 0,
                            loading: Loading::Main,
                        };
                        in_every_order(task, framed, choice, visit);
                    }
                }
            }
        }
    }
}

fn in_every_order(task: &Task<'_>, framed: &Framed, choice: Choice, visit: &mut Visit<'_>) {
    let nest = match framed.nest(&choice) {
        Ok(nest) => nest,
        Err(refusal) => return visit(&choice, Err(refusal)),
    };
    let orders = 0..u8::try_from(ORDERS.len()).unwrap_or(0);
    for order in orders.filter(|order| space::is_canonical(&nest, *order, choice.supply)) {
        for fetch_bytes in space::fetch_widths(&task.setup, &nest) {
            for loading in [Loading::Main, Loading::Sub] {
                let choice = Choice { order, fetch_bytes, loading, ..choice };
                visit(&choice, judge(task, framed, &choice));
            }
        }
    }
}

/// Cycles and energy of one candidate.
///
/// # Errors
/// The first rule that it breaks.
pub fn judge(task: &Task<'_>, framed: &Framed, choice: &Choice) -> Result<(u64, u64), Refusal> {
    let setup = &task.setup;
    let nest = framed.nest(choice)?;
    check_sizes(setup, &nest, choice.supply)?;
    let commands = Commands::new(setup, &nest, choice)?;
    check_banks(setup, &nest, choice)?;
    check_loading(&nest, choice.loading)?;
    let brought = brought(task, framed, &nest, &mut Memo::new())?;
    let (frame, parts) = (&framed.frame, framed.frame.commands());
    let cycles = columns(setup, &commands, parts, (&brought, brought.all_cycles(task, frame))).cycles;
    let parts_fj = energy(setup, &counts(setup, &nest, choice, &commands), cycles, parts);
    let brought_fj = energy_fj(setup.machine, &brought.all_counts(task, frame));
    Ok((cycles, parts_fj.iter().chain(&brought_fj).fold(0, |all: u64, part| all.saturating_add(*part))))
}
