//! `tilewright study`: the models beside what others measured.

use std::ffi::OsString;

use crate::args::PublishedArgs;
use crate::{Host, Outcome, nki};

/// Rows of Neuron chips run in the Python package, as kernels do.
pub(crate) fn published(args: &PublishedArgs, host: &mut dyn Host) -> Outcome {
    let mut all: Vec<OsString> = vec!["--chip".into(), args.chip.as_str().into()];
    let texts = [("--group", args.group.as_ref().map(OsString::from))];
    let paths = [("--rows", args.rows.clone()), ("--kernels", args.kernels.clone())];
    for (name, value) in texts.into_iter().chain(paths) {
        if let Some(value) = value {
            all.extend([name.into(), value]);
        }
    }
    if args.json {
        all.push("--json".into());
    }
    nki::module("tilewright.nki.published", &all, host)
}
