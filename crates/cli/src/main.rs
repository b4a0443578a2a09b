//! The `tilewright` binary: hands arguments and the real file system to the library, prints what comes back.

use std::io::{IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use tilewright_cli::{Host, Outcome, run};

/// The machine that the binary runs on.
struct RealHost;

impl Host for RealHost {
    #[expect(clippy::disallowed_methods, reason = "the command line is where files are read")]
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    #[expect(clippy::disallowed_methods, reason = "the command line is where files are written")]
    fn write(&mut self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        // A reader sees the whole file or none: it gets its name once it is complete.
        let mut partial = path.as_os_str().to_owned();
        partial.push(format!(".partial-{}", std::process::id()));
        let written = std::fs::write(&partial, bytes).and_then(|()| std::fs::rename(&partial, path));
        if written.is_err() {
            let _ = std::fs::remove_file(&partial);
        }
        written
    }

    fn create_folder(&mut self, path: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(path)
    }

    fn read_standard_input(&mut self, most_bytes: u64) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        std::io::stdin().take(most_bytes).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    #[expect(clippy::disallowed_methods, reason = "the command line is where clocks are read")]
    fn seconds(&self) -> f64 {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed().as_secs_f64()
    }

    fn interrupted(&self) -> bool {
        // The first Ctrl-C asks for the best so far, the second ends the program.
        static ASKED: AtomicBool = AtomicBool::new(false);
        static LISTENS: std::sync::Once = std::sync::Once::new();
        LISTENS.call_once(|| {
            let _ = ctrlc::set_handler(|| {
                if ASKED.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
            });
        });
        ASKED.load(Ordering::Relaxed)
    }

    fn progress(&mut self, line: &str) {
        let mut stream = std::io::stderr();
        if stream.is_terminal() {
            let _ = write!(stream, "\r\x1b[2K{line}");
            let _ = stream.flush();
        }
    }

    fn python(&mut self, arguments: &[std::ffi::OsString]) -> std::io::Result<u8> {
        let status = std::process::Command::new("python3").args(arguments).status()?;
        // Ended by a signal: a failure like any other.
        Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(tilewright_cli::FAILED))
    }

    #[expect(clippy::disallowed_methods, reason = "NO_COLOR is a convention of terminals")]
    fn colour(&self) -> bool {
        std::io::stderr().is_terminal() && std::env::var("NO_COLOR").map_or(true, |value| value.is_empty())
    }
}

fn main() -> ExitCode {
    let outcome =
        std::panic::catch_unwind(|| run(std::env::args_os(), &mut RealHost)).unwrap_or_else(|_| Outcome {
            code: tilewright_cli::OUR_FAULT,
            stdout: String::new(),
            stderr:
                "tilewright: this is a defect of tilewright, not of your input; please report the command\n"
                    .into(),
        });
    // A reader that has seen enough closes the pipe; that is not a failure.
    let _ = std::io::stdout().lock().write_all(outcome.stdout.as_bytes());
    let _ = std::io::stderr().lock().write_all(outcome.stderr.as_bytes());
    ExitCode::from(outcome.code)
}
