//! The host that commands really run on: files, streams, clock and interpreter of this machine.

use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::mapped::Mapped;
use crate::progress::ProgressState;
use crate::{Draft, Host, OUR_FAULT, Outcome, Refusal, draft, run, serve_page, wants_data};

/// This machine.
#[derive(Debug)]
pub struct RealHost {
    /// The interpreter that runs kernels.
    pub python: OsString,
    /// How far the command is.
    progress: ProgressState,
}

impl Host for RealHost {
    #[expect(clippy::disallowed_methods, reason = "the command line is where files are read")]
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn real_path(&self, path: &Path) -> std::io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    fn file_at(&self, path: &Path) -> Option<PathBuf> {
        draft::file_at(path)
    }

    fn has_program(&self, name: &str) -> bool {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| folder.join(name).is_file())
    }

    fn map(&self, path: &Path, most_bytes: u64) -> std::io::Result<Mapped> {
        Mapped::open(path, most_bytes)
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        let mut draft = self.draft(path)?;
        draft.write_all(bytes)?;
        draft.keep(self)
    }

    fn draft(&mut self, path: &Path) -> std::io::Result<Box<dyn Draft>> {
        draft::begin(path)
    }

    fn scratch_folder(&mut self, name: &str) -> std::io::Result<PathBuf> {
        let folder = std::env::temp_dir().join(format!("tilewright-{name}"));
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
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

    fn progress(&mut self, phase: &str, part: Option<f64>) {
        let seconds = self.seconds();
        self.progress.show(phase, part, seconds);
    }

    fn say(&mut self, text: &str) -> bool {
        let mut stream = std::io::stdout();
        stream.is_terminal() && stream.write_all(text.as_bytes()).and_then(|()| stream.flush()).is_ok()
    }

    fn serve(&mut self, page: &str, port: u16) -> std::io::Result<()> {
        let mut stderr = std::io::stderr();
        let mut listening = |port: u16| {
            let _ = writeln!(stderr, "page        http://127.0.0.1:{port}/ (Ctrl-C ends it)");
        };
        serve_page::serve(page, port, &mut listening, &|| self.interrupted())
    }

    fn python(&mut self, arguments: &[OsString]) -> std::io::Result<u8> {
        let status = std::process::Command::new(&self.python).args(arguments).status()?;
        // Ended by a signal: a failure like any other.
        Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(crate::FAILED))
    }

    #[expect(clippy::disallowed_methods, reason = "NO_COLOR is a convention of terminals")]
    fn colour(&self) -> bool {
        std::io::stderr().is_terminal() && std::env::var("NO_COLOR").map_or(true, |value| value.is_empty())
    }
}

/// Runs one command line; if an invariant breaks on the way, gives no result but exit code 3 and a report
/// that says which.
pub fn run_guarded(arguments: Vec<OsString>, mut host: impl Host) -> Outcome {
    let wants_data = wants_data(&arguments);
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| run(arguments, &mut host)));
    ended.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let stderr = format!(
            "tilewright: {words}\n\
             tilewright: this is a defect of tilewright, not of your input; please report the command\n"
        );
        let refusal = Some(Box::new(Refusal {
            code: "cli/defect".to_string(),
            asked: words.to_string(),
            instead: Some("report the command".to_string()),
            ..Refusal::default()
        }));
        let outcome = Outcome { code: OUR_FAULT, stderr, refusal, ..Outcome::default() };
        if wants_data { outcome.into_data() } else { outcome }
    })
}

/// Runs one command line here, prints what it gave and returns the exit code.
pub fn run_here(arguments: impl IntoIterator<Item = OsString>, python: OsString) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let outcome = run_guarded(arguments, RealHost { python, progress: ProgressState::default() });
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(outcome.stdout.as_bytes()).and_then(|()| stdout.flush());
    let _ = std::io::stderr().lock().write_all(outcome.stderr.as_bytes());
    match written {
        // A reader that has seen enough closes the pipe; that is not a failure.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let words = format!("error: cannot write standard output: {error}\n");
            let _ = std::io::stderr().lock().write_all(words.as_bytes());
            outcome.code.max(crate::FAILED)
        }
        _ => outcome.code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright_base::invariant::{BROKEN, broken};

    /// A host on which an invariant breaks when a file is read.
    struct BreaksOnRead;

    impl Host for BreaksOnRead {
        fn read(&self, _: &Path) -> std::io::Result<Vec<u8>> {
            broken(format_args!("a file has two lengths"))
        }

        fn write(&mut self, _: &Path, _: &[u8]) -> std::io::Result<()> {
            Ok(())
        }

        fn read_standard_input(&mut self, _: u64) -> std::io::Result<Vec<u8>> {
            Ok(Vec::new())
        }

        fn colour(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_broken_invariant_gives_no_result_but_exit_code_3_and_a_report() {
        let words = ["tilewright", "sim", "some.tcp"].map(OsString::from);
        let outcome = run_guarded(words.to_vec(), BreaksOnRead);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (OUR_FAULT, ""));
        assert!(outcome.stderr.contains(&format!("{BROKEN}a file has two lengths")), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("please report the command"), "{}", outcome.stderr);
    }

    #[test]
    fn a_broken_invariant_is_data_for_whoever_asks_for_data() {
        let words = ["tilewright", "sim", "some.tcp", "--json"].map(OsString::from);
        let outcome = run_guarded(words.to_vec(), BreaksOnRead);
        let data: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("data");
        assert_eq!((outcome.code, &data["error"]["code"]), (OUR_FAULT, &"cli/defect".into()));
        assert_eq!(data["error"]["asked"], format!("{BROKEN}a file has two lengths"));
    }
}
