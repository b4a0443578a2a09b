//! `tilewright study MODEL --batch B --input N --output M`: one question, answered by simulated programs.

use tilewright_compile::CompileError;
use tilewright_machine::{LoadedMachine, Tcp};
use tilewright_study::bands::BandScope;
use tilewright_study::question::{Question, answer, text};

use super::args::ModelArgs;
use super::{ModelSetup, with_setup};
use crate::machine::to_json;
use crate::run::positions;
use crate::{Host, Outcome};

/// Refuses more tokens than the model has positions for; the last one that is made is not fed again.
fn check_positions(question: Question, most: u64) -> Result<(), CompileError> {
    let fed = question.input.saturating_add(question.output.saturating_sub(1));
    if fed <= most {
        return Ok(());
    }
    let allowed = format!("1 to {most}, the positions of the model");
    Err(CompileError::Size { what: "the number of tokens of a prompt and behind it", found: fed, allowed })
}

/// Answers it.
pub(crate) fn ask(
    loaded: &LoadedMachine,
    machine: &Tcp,
    args: &ModelArgs,
    question: Question,
    host: &mut dyn Host,
) -> Result<Outcome, Outcome> {
    let context = question.input + question.output;
    let bands = if args.bands { BandScope::Everything } else { BandScope::Nothing };
    let setup = ModelSetup { loaded, machine, args, context, bands };
    let found = with_setup(&setup, host, |setting, say| {
        check_positions(question, positions(setting.graph))?;
        answer(setting, question, say)
    })?;
    Ok(Outcome::good(if args.json { to_json(&found) } else { text(&found) }))
}
