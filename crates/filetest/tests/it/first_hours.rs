//! What people meet in their first hours: long work that says how far it is, words that a shell completes,
//! manual pages.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use tilewright_cli::{Host, Outcome};
use tilewright_filetest::host::TestHost;
use tilewright_filetest::repository;

/// A host that keeps what it was told of long work.
struct Watching {
    inner: TestHost,
    phases: Vec<(String, Option<f64>)>,
}

impl Host for Watching {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.inner.read(path)
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.inner.write(path, bytes)
    }

    fn read_standard_input(&mut self, most_bytes: u64) -> io::Result<Vec<u8>> {
        self.inner.read_standard_input(most_bytes)
    }

    fn colour(&self) -> bool {
        false
    }

    fn progress(&mut self, phase: &str, part: Option<f64>) {
        // An empty phase takes away what was shown.
        if !phase.is_empty() {
            self.phases.push((phase.to_string(), part));
        }
    }
}

fn watched(words: &[&str]) -> (Outcome, Watching) {
    let inner = TestHost { root: repository(), ..TestHost::default() };
    let mut host = Watching { inner, phases: Vec::new() };
    let words = std::iter::once("tilewright").chain(words.iter().copied()).map(OsString::from);
    let outcome = tilewright_cli::run(words, &mut host);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    (outcome, host)
}

/// A search among choices says which part of them is evaluated, from little to all of it; a compile without
/// one names its phases.
#[test]
fn long_work_says_how_far_it_is() {
    let (_, host) = watched(&["compile", "tests/kernels/canonical.kernels", "--effort", "1"]);
    let parts: Vec<f64> = host.phases.iter().filter_map(|(_, part)| *part).collect();
    assert!(parts.len() > 2 && parts.is_sorted(), "{parts:?}");
    assert!(parts.iter().all(|part| (0.0..=1.0).contains(part)), "{parts:?}");
    assert!(host.phases.iter().any(|(phase, _)| phase == "checking"), "{:?}", host.phases);
}

/// Whoever asks for data gets nothing else.
#[test]
fn commands_that_print_data_show_no_progress() {
    let asked = ["explore", "mk,nk->mn", "--dims", "m=16,n=32,k=64"];
    let (_, host) = watched(&asked);
    assert!(!host.phases.is_empty());
    let (outcome, host) = watched(&[&asked[..], &["--json"]].concat());
    let data = serde_json::from_str::<serde_json::Value>(&outcome.stdout);
    assert!(data.is_ok() && outcome.stderr.is_empty(), "{}", outcome.stderr);
    assert!(host.phases.is_empty(), "{:?}", host.phases);
    let (_, host) = watched(&["run", "tests/general/mlp.graph", "--seed", "3", "--json"]);
    assert!(host.phases.is_empty(), "{:?}", host.phases);
}

/// Verbs, as the help lists them.
fn verbs() -> Vec<String> {
    let help = watched(&["--help"]).0.stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| line.starts_with("  ")).filter_map(|line| {
        let name = line.get(2..)?;
        (!name.starts_with(' ')).then(|| name.split_whitespace().next().map(str::to_string))?
    });
    listed.filter(|verb| verb != "help").collect()
}

#[test]
fn shells_complete_every_verb() {
    let verbs = verbs();
    assert!(verbs.len() > 10 && verbs.contains(&"explore".to_string()), "{verbs:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = watched(&["completions", shell]).0.stdout;
        for verb in &verbs {
            assert!(script.contains(verb.as_str()), "{shell} does not complete {verb}");
        }
        assert!(script.contains("without"), "{shell} does not complete options");
    }
}

#[test]
fn every_verb_has_a_manual_page() {
    let first = watched(&["man"]).0.stdout;
    assert!(first.contains(".TH tilewright 1"), "{first}");
    let (_, host) = watched(&["man", "-o", "pages"]);
    for verb in verbs() {
        let page = host.inner.written.get(&format!("pages/tilewright-{verb}.1"));
        let page = String::from_utf8_lossy(page.map_or(&[], Vec::as_slice)).into_owned();
        assert!(page.contains(&format!(".TH tilewright-{verb} 1")), "{verb}: {page}");
    }
    // Verbs below verbs have pages too.
    assert!(host.inner.written.contains_key("pages/tilewright-notation-bridge.1"));
}
