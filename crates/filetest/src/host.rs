//! A host for tests: reads the repository and given texts, keeps what is written in memory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use tilewright_cli::{GOOD, Host, Outcome};

/// Files given to a command and files that it wrote.
#[derive(Debug, Default)]
pub struct TestHost {
    /// Where relative paths start.
    pub root: PathBuf,
    /// Texts that stand in for files, and for standard input under `-`.
    pub given: BTreeMap<String, Vec<u8>>,
    /// What the command wrote.
    pub written: BTreeMap<String, Vec<u8>>,
}

impl Host for TestHost {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let name = path.to_string_lossy();
        match self.given.get(name.as_ref()).or_else(|| self.written.get(name.as_ref())) {
            Some(bytes) => Ok(bytes.clone()),
            None => std::fs::read(self.root.join(path)),
        }
    }

    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        if self.given.contains_key(path.to_string_lossy().as_ref()) {
            return Ok(self.root.join(path));
        }
        std::fs::canonicalize(self.root.join(path))
    }

    /// Files of the repository, and those that were given; what is written stays in memory.
    fn file_at(&self, path: &Path) -> Option<PathBuf> {
        Some(self.real_path(path).unwrap_or_else(|_| self.root.join(path)))
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.written.insert(path.to_string_lossy().into_owned(), bytes.to_vec());
        Ok(())
    }

    fn read_standard_input(&mut self, _: u64) -> io::Result<Vec<u8>> {
        Ok(self.given.get("-").cloned().unwrap_or_default())
    }

    fn colour(&self) -> bool {
        false
    }
}

/// Runs `tilewright` with these words behind it.
pub fn run(words: &[String], host: &mut TestHost) -> Outcome {
    let arguments = std::iter::once("tilewright").chain(words.iter().map(String::as_str)).map(OsString::from);
    tilewright_cli::run(arguments, host)
}

/// Runs `tilewright` with the words of a line behind it.
pub fn tilewright(line: &str, host: &mut TestHost) -> Outcome {
    let words: Vec<String> = line.split(' ').map(String::from).collect();
    run(&words, host)
}

/// What a line prints.
///
/// # Panics
/// If it fails.
pub fn good(line: &str, host: &mut TestHost) -> String {
    let outcome = tilewright(line, host);
    assert_eq!(outcome.code, GOOD, "{line}: {}", outcome.stderr);
    outcome.stdout
}

/// Runs the commands of a pipe, each on what the one before printed; the first that fails is the last.
pub fn run_pipe(commands: &[Vec<String>], host: &mut TestHost) -> Outcome {
    let mut last = Outcome::default();
    let mut stderr = String::new();
    for (index, words) in commands.iter().enumerate() {
        if index > 0 {
            host.given.insert("-".to_string(), last.stdout.into_bytes());
        }
        last = run(words, host);
        stderr.push_str(&last.stderr);
        if last.code != 0 {
            break;
        }
    }
    Outcome { stderr, ..last }
}
