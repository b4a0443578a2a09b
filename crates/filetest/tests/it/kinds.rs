//! What published rows were used for: rows and the figures that were fitted to them name each other, and
//! new rows are held out by a hash that nobody chooses.

#![expect(clippy::disallowed_methods, reason = "the test reads the repository's own files")]

use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::Sources;
use tilewright_filetest::repository;
use tilewright_machine::neuron::instances;
use tilewright_machine::{KeyValue, builtin, builtin_names, load};
use tilewright_study::kinds::{RowKind, is_set_aside};
use tilewright_study::rows::{FILE, PublishedRow, read};

fn rows() -> Vec<PublishedRow> {
    read(FILE).expect("the rows are valid")
}

/// Figures of a machine, bases included.
fn figures(name: &str) -> Vec<KeyValue> {
    let mut sources = Sources::default();
    let id = sources.add(name, builtin(name).expect("it is built in"));
    load(&mut sources, id, &|base| builtin(base).map(str::to_string)).expect("it loads").key_values()
}

fn path(figure: &KeyValue) -> String {
    format!("{}.{}", figure.section, figure.key)
}

#[test]
fn calibration_rows_name_the_figures_that_name_them() {
    for row in rows() {
        assert_eq!(row.kind == RowKind::Calibration, !row.calibrates.is_empty(), "{}", row.id());
        let figures = figures(&row.chip);
        for key in &row.calibrates {
            let figure = figures.iter().find(|figure| path(figure) == *key);
            let named = figure.is_some_and(|figure| figure.fitted_to.contains(&row.id()));
            assert!(named, "[fitted] of {} does not name {} for {key}", row.chip, row.id());
        }
    }
}

/// Groups of rows in files of their own, and where these are.
const FILES: [(&str, &str); 3] = [
    ("trainium2/nki-library/*", "bench/published_library.toml"),
    ("trainium1/collectives/*", "bench/published_collectives.toml"),
    ("trainium2/collectives/*", "bench/published_collectives.toml"),
];

/// A row of one of these files.
struct OtherRow {
    /// What machine files call all rows of its file and chip.
    all: &'static str,
    /// What `bench/published.toml` would call it.
    id: String,
    kind: RowKind,
    calibrates: Vec<String>,
    published: f64,
}

/// The chip that a row was measured on: that of its instance, if it names one.
fn chip_of(row: &toml::Value) -> &str {
    let Some(named) = row.get("instance").and_then(toml::Value::as_str) else { return "trainium2" };
    let found = instances().iter().find(|instance| instance.name == named);
    &found.expect("a known instance").chip
}

fn other_row(all: &'static str, row: &toml::Value) -> OtherRow {
    let text = |key: &str| row.get(key).and_then(toml::Value::as_str);
    let (name, kind) = (text("name").expect("a name"), text("kind").expect("a kind"));
    let kind = RowKind::ALL.into_iter().find(|known| known.name() == kind);
    let calibrates = row.get("calibrates").and_then(toml::Value::as_array).into_iter().flatten();
    let published = &row["published"];
    #[expect(clippy::cast_precision_loss, reason = "microseconds of a run")]
    let whole = |value: i64| value as f64;
    OtherRow {
        all,
        id: format!("{}/{}/{name}", chip_of(row), text("group").unwrap_or("collectives")),
        kind: kind.unwrap_or_else(|| panic!("{name} is of no kind")),
        calibrates: calibrates.map(|key| key.as_str().expect("a figure").to_string()).collect(),
        published: published.as_float().or(published.as_integer().map(whole)).expect("a number"),
    }
}

fn other_rows() -> Vec<OtherRow> {
    let of = |&(all, file): &(&'static str, &str)| {
        let text = std::fs::read_to_string(repository().join(file)).expect("the file is there");
        let table: toml::Table = toml::from_str(&text).expect("it is TOML");
        let rows = table["row"].as_array().expect("rows");
        let of_chip = rows.iter().filter(|row| all.split('/').next() == Some(chip_of(row)));
        of_chip.map(|row| other_row(all, row)).collect::<Vec<_>>()
    };
    FILES.iter().flat_map(of).collect()
}

#[test]
fn fitted_figures_name_calibration_rows_that_name_them() {
    let (rows, others) = (rows(), other_rows());
    for machine in builtin_names() {
        for figure in figures(machine) {
            for id in &figure.fitted_to {
                let path = path(&figure);
                let row = rows.iter().find(|row| row.id() == *id);
                let mut of_files = others.iter().filter(|row| row.all == id);
                let names = row.is_some_and(|row| row.calibrates.contains(&path))
                    || of_files.any(|row| row.calibrates.contains(&path));
                assert!(names, "{machine}: {path} names {id}, which does not name it");
            }
        }
    }
}

/// Every file of published rows is one that these tests read: a row of another one would escape its rule.
#[test]
fn every_file_of_published_rows_is_read() {
    let folder = std::fs::read_dir(repository().join("bench")).expect("the folder is there");
    let names = folder.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let names = names.filter(|name| name.starts_with("published") && name.ends_with(".toml"));
    let found: BTreeSet<String> = names.map(|name| format!("bench/{name}")).collect();
    let read = FILES.iter().map(|(_, file)| (*file).to_string()).chain(["bench/published.toml".to_string()]);
    assert_eq!(found, read.collect());
}

/// Rows of each group, of all files, that the hash puts aside and that were seen before there was such a
/// rule, by how many they are and what their ids add up to. A row that enters now and is put aside must be
/// `held-out`.
const SEEN_BEFORE: [(&str, usize, u64); 36] = [
    ("tcp/DMA", 2, 547_820),
    ("tcp/MNIST", 2, 220_817),
    ("tcp/Table II", 6, 727_987),
    ("tcp/claims", 4, 448_884),
    ("tcp/fetch", 2, 54_526),
    ("tcp/others", 7, 535_930),
    ("tcp/transpose", 4, 710_977),
    ("trainium1/A", 1, 916_794),
    ("trainium1/C", 12, 878_550),
    ("trainium1/E", 4, 381_985),
    ("trainium1/F", 6, 896_571),
    ("trainium1/O", 9, 553_470),
    ("trainium1/collectives", 4, 830_237),
    ("trainium2/B", 4, 151_307),
    ("trainium2/E", 3, 548_530),
    ("trainium2/G1", 3, 880_030),
    ("trainium2/G2", 8, 311_958),
    ("trainium2/G3", 14, 635_236),
    ("trainium2/G4", 5, 25_657),
    ("trainium2/G5", 1, 267_551),
    ("trainium2/G6", 2, 465_211),
    ("trainium2/G7", 7, 545_056),
    ("trainium2/G8", 2, 262_282),
    ("trainium2/G9", 1, 827_406),
    ("trainium2/H1", 16, 499_762),
    ("trainium2/H2", 14, 935_106),
    ("trainium2/H3", 1, 204_844),
    ("trainium2/I1", 8, 389_429),
    ("trainium2/I2", 1, 248_346),
    ("trainium2/I3", 5, 618_492),
    ("trainium2/I5", 4, 441_596),
    ("trainium2/I6", 3, 653_599),
    ("trainium2/I7", 3, 275_212),
    ("trainium2/I8", 5, 62_648),
    ("trainium2/O", 7, 816_578),
    ("trainium2/collectives", 5, 861_534),
];

/// A sum of letters and places: two lists of ids have the same one only by chance.
fn checksum(ids: &BTreeSet<String>) -> u64 {
    let letters = ids.iter().flat_map(|id| id.bytes().chain([0]));
    (1u64..)
        .zip(letters)
        .fold(0_u64, |sum, (place, letter)| sum.wrapping_mul(31) ^ (place * u64::from(letter)))
        % 1_000_003
}

#[test]
fn new_rows_are_held_out_by_their_hash() {
    let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let others = other_rows().into_iter().map(|row| (row.id, row.kind));
    for (id, kind) in rows().iter().map(|row| (row.id(), row.kind)).chain(others) {
        let aside = is_set_aside(&id);
        assert!(aside || kind != RowKind::HeldOut, "{id}: its hash does not put it aside");
        if aside && kind != RowKind::HeldOut {
            let group = id.splitn(3, '/').take(2).collect::<Vec<_>>().join("/");
            seen.entry(group).or_default().insert(id);
        }
    }
    let found: Vec<(&str, usize, u64)> =
        seen.iter().map(|(group, ids)| (group.as_str(), ids.len(), checksum(ids))).collect();
    assert_eq!(
        found, SEEN_BEFORE,
        "a row that is new in one of these groups is put aside by its hash: write kind = \"held-out\""
    );
}

/// Rows of files of their own name the figures that were fitted to them too, and these name them.
#[test]
fn rows_of_other_files_name_the_figures_that_name_them() {
    let mut known: BTreeMap<String, Vec<KeyValue>> = BTreeMap::new();
    for row in other_rows() {
        assert_eq!(row.kind == RowKind::Calibration, !row.calibrates.is_empty(), "{}", row.id);
        let chip = row.all.split('/').next().expect("a chip");
        let figures = known.entry(chip.to_string()).or_insert_with(|| figures(chip));
        for key in &row.calibrates {
            let figure = figures.iter().find(|figure| path(figure) == *key);
            let named = figure.is_some_and(|figure| figure.fitted_to.iter().any(|id| id == row.all));
            assert!(named, "[fitted] of {chip} does not name {} for {key}: {}", row.all, row.id);
        }
    }
}

/// What a value was used for does not depend on which kernel is run beside it.
#[test]
fn a_row_of_two_files_is_of_one_kind() {
    let (rows, mut shared) = (rows(), 0);
    for other in other_rows() {
        let Some(row) = rows.iter().find(|row| row.id() == other.id) else { continue };
        assert_eq!((row.kind, &row.calibrates), (other.kind, &other.calibrates), "{}", other.id);
        assert!((row.published - other.published).abs() < 1e-9, "{}", other.id);
        shared += 1;
    }
    assert!(shared > 0, "no row is in two files");
}
