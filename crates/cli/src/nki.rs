//! `tilewright nki` and `sweep`: start the Python package, which does the work.

use std::ffi::OsString;

use crate::{Host, Outcome};

/// Ends well if the package can be imported.
const PROBE: &str = "import importlib.util as u, sys; sys.exit(0 if u.find_spec('tilewright') else 1)";

/// Runs `python3 -m tilewright.nki` with the arguments.
pub(crate) fn run(arguments: &[OsString], host: &mut dyn Host) -> Outcome {
    module("tilewright.nki", arguments, host)
}

/// Runs a module of the package with the arguments.
pub(crate) fn module(name: &str, arguments: &[OsString], host: &mut dyn Host) -> Outcome {
    match host.python(&["-c".into(), PROBE.into()]) {
        Err(error) => {
            return Outcome::usage(&format!("this runs in Python, and python3 does not start: {error}"));
        }
        Ok(0) => {}
        Ok(_) => {
            return Outcome::usage(
                "the Python package `tilewright` is not installed for python3; install it with `pip install \
                 ./python`",
            );
        }
    }
    let mut all: Vec<OsString> = vec!["-m".into(), name.into()];
    all.extend_from_slice(arguments);
    match host.python(&all) {
        Ok(code) => Outcome { code, ..Outcome::default() },
        Err(error) => Outcome::usage(&format!("python3 does not start: {error}")),
    }
}
