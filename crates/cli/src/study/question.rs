//! `tilewright study MODEL --batch B --input N --output M`: one question, answered by simulated programs.

use tilewright_machine::{LoadedMachine, Tcp};
use tilewright_study::bands::BandScope;
use tilewright_study::question::{Question, answer, text};

use super::args::ModelArgs;
use super::{ModelSetup, with_setup};
use crate::machine::to_json;
use crate::{Host, Outcome};

/// Answers it.
pub(crate) fn ask(
    loaded: &LoadedMachine,
    machine: &Tcp,
    args: &ModelArgs,
    question: Question,
    host: &mut dyn Host,
) -> Result<Outcome, Outcome> {
    let context = question.input + question.output;
    let setup = ModelSetup { loaded, machine, args, context, bands: BandScope::Nothing };
    let found = with_setup(&setup, host, |setting, say| answer(setting, question, say))?;
    Ok(Outcome::good(if args.json { to_json(&found) } else { text(&found) }))
}
