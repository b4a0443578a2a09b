//! The `tilewright` binary: arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(tilewright_cli::run_here(std::env::args_os(), "python3".into()))
}
