//! What tests of several crates share: the machine that they run on, where model data lies, and how a test
//! says that it skips.
//!
//! Rust's test harness knows no test that decides while it runs that it cannot be run. Such a test calls
//! [`skip`], which adds a line to
//! `target/skipped.txt`; `./test` prints these lines in its summary, and `./test deep` fails on those that
//! `models/fetch` could mend.

#![expect(clippy::disallowed_methods, reason = "tests look for model files and note what they skip")]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tilewright_base::{Sources, render};
use tilewright_machine::{Tcp, builtin, load};

/// How a skip reads for which `models/fetch` has the remedy; `./test deep` looks for it.
pub const FETCH_BRINGS_IT: &str = "models/fetch brings it";

/// The machine `tcp` that comes with the project, read once.
///
/// # Panics
/// Where it does not load.
pub fn shared_tcp() -> &'static Tcp {
    static LOADED: LazyLock<Tcp> = LazyLock::new(|| {
        let mut sources = Sources::default();
        let id = sources.add("machines/tcp.toml", builtin("tcp").unwrap_or_default());
        let loaded = load(&mut sources, id, &|name: &str| builtin(name).map(str::to_owned));
        let loaded = loaded.unwrap_or_else(|found| panic!("{}", render::plain(&sources, &found)));
        let Some(tcp) = loaded.machine.tcp() else { panic!("the machine `tcp` is no TCP") };
        tcp.clone()
    });
    &LOADED
}

/// A copy of the machine `tcp`, for tests that change it.
pub fn tcp() -> Tcp {
    shared_tcp().clone()
}

/// The top of the repository.
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    here.canonicalize().unwrap_or(here)
}

/// A file or folder of `../shared/models` beside the checkout; without it the calling test skips.
pub fn shared_model(name: &str) -> Option<PathBuf> {
    let path = repository().join("../shared/models").join(name);
    if path.exists() {
        return Some(path);
    }
    skip(&format!("no ../shared/models/{name} beside the checkout"));
    None
}

/// A file or folder of `target/models`, where `models/fetch` puts downloads; without it the calling test
/// skips.
pub fn fetched_model(name: &str) -> Option<PathBuf> {
    let path = repository().join("target/models").join(name);
    if path.exists() {
        return Some(path);
    }
    skip(&format!("no target/models/{name}; {FETCH_BRINGS_IT}"));
    None
}

/// Whether this is the long run, `./test deep`, with every case instead of a draw.
pub fn is_deep() -> bool {
    std::env::var("TILEWRIGHT_DEEP").is_ok_and(|value| !value.is_empty() && value != "0")
}

/// How many cases of a property to draw: few in `./test`, many in `./test deep`.
pub fn draws<N>(quick: N, deep: N) -> N {
    if is_deep() { deep } else { quick }
}

/// Notes that the calling test skips, and why, for the summary of `./test`.
///
/// # Panics
/// Where the note cannot be written: a skip that nobody sees would pass for a success.
#[expect(clippy::print_stderr, reason = "whoever runs one test sees it there")]
pub fn skip(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_string();
    let line = format!("{test}: {why}\n");
    eprint!("skipped {line}");
    let notes = repository().join("target/skipped.txt");
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&notes)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(written.is_ok(), "{} cannot be written: {written:?}", notes.display());
}
