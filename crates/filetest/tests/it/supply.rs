//! What is built on: licences, sources and versions of all crates, without a network; and reasons beside
//! every
//! `unsafe`.

#![expect(clippy::disallowed_methods, reason = "the tests read the repository")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tilewright_filetest::repository;

/// Licences that go with Apache-2.0 in one binary. A crate may offer others beside one of these.
const LICENCES: [&str; 10] = [
    "Apache-2.0",
    "MIT",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "CC0-1.0",
    "BSL-1.0",
    "Apache-2.0 WITH LLVM-exception",
];

/// Crates that are there in several versions because others ask for them, each with the number of versions.
const SEVERAL_VERSIONS: &[(&str, usize)] =
    &[("getrandom", 2), ("hashbrown", 2), ("r-efi", 2), ("rand", 2), ("rand_core", 2), ("syn", 2)];

fn metadata() -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string());
    let found = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .current_dir(repository())
        .output()
        .expect("cargo runs");
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    serde_json::from_slice(&found.stdout).expect("metadata are JSON")
}

fn packages(metadata: &Value) -> Vec<&Value> {
    metadata["packages"].as_array().expect("a list of packages").iter().collect()
}

/// Whether an expression of licences can be kept with those that are allowed.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    expression.split(" AND ").all(|part| {
        let part = part.trim_matches(['(', ')', ' ']);
        part.split(" OR ").any(|one| LICENCES.contains(&one.trim_matches(['(', ')', ' '])))
    })
}

#[test]
fn every_crate_has_a_licence_that_goes_with_ours() {
    assert!(is_allowed("MIT OR Apache-2.0") && is_allowed("(MIT OR GPL-3.0) AND Unicode-3.0"));
    assert!(!is_allowed("GPL-3.0") && !is_allowed("MIT AND GPL-3.0") && !is_allowed(""));
    let metadata = metadata();
    let others: Vec<String> = packages(&metadata)
        .iter()
        .filter(|package| !is_allowed(package["license"].as_str().unwrap_or("")))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    assert!(others.is_empty(), "licences to look at: {others:#?}");
}

#[test]
fn every_crate_comes_from_the_registry_or_this_repository() {
    let metadata = metadata();
    for package in packages(&metadata) {
        let Some(source) = package["source"].as_str() else {
            let manifest = package["manifest_path"].as_str().unwrap_or("");
            assert!(Path::new(manifest).starts_with(repository()), "{manifest} lies outside");
            continue;
        };
        assert!(source.starts_with("registry+"), "{} comes from {source}", package["name"]);
    }
}

#[test]
fn crates_in_several_versions_are_known() {
    let metadata = metadata();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages(&metadata) {
        let (name, version) = (package["name"].as_str(), package["version"].as_str());
        versions.entry(name.unwrap_or("")).or_default().insert(version.unwrap_or(""));
    }
    let several: Vec<(&str, usize)> =
        versions.iter().filter(|(_, all)| all.len() > 1).map(|(name, all)| (*name, all.len())).collect();
    assert_eq!(several, SEVERAL_VERSIONS, "versions: {versions:?}");
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Lines with an `unsafe` block that no `SAFETY` stands above, within the function that it is in.
fn without_reason(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let is_block = |line: &str| {
        let code = line.split("//").next().unwrap_or("");
        code.contains("unsafe {") || code.contains("unsafe impl")
    };
    let has_reason = |at: usize| {
        let above = lines[..at].iter().rev();
        let mut own = above.take_while(|line| !line.split("//").next().unwrap_or("").contains("fn "));
        own.any(|line| line.contains("SAFETY: "))
    };
    (0..lines.len()).filter(|at| is_block(lines[*at]) && !has_reason(*at)).map(|at| at + 1).collect()
}

#[test]
fn every_unsafe_block_says_why_it_is_sound() {
    assert_eq!(without_reason("fn f() {\n    unsafe { g() }\n}\n"), [2]);
    assert!(without_reason("fn f() {\n    // SAFETY: why\n    unsafe { g() }\n}\n").is_empty());
    let mut files = Vec::new();
    sources(&repository().join("crates"), &mut files);
    sources(&repository().join("bench"), &mut files);
    let mut blocks = 0;
    for path in files.iter().filter(|path| !path.ends_with("it/supply.rs")) {
        let text = std::fs::read_to_string(path).expect("a source file");
        blocks += text.matches("unsafe {").count();
        let bare = without_reason(&text);
        assert!(bare.is_empty(), "{} has unsafe without SAFETY at lines {bare:?}", path.display());
    }
    assert!(blocks > 20, "found {blocks} blocks");
}
