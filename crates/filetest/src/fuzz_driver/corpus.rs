//! Inputs by what they show: of those that show the same the shortest is kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::repository;

/// Inputs that are kept for one target, at most: enough to draw from, and little to look through.
const MAX_KEPT: usize = 4096;
/// Longest input that is kept.
const MAX_BYTES: usize = 1 << 14;

/// Inputs of one target.
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    inputs: Vec<Vec<u8>>,
    seeds: Vec<Vec<u8>>,
    /// By what an input shows, its place among the inputs.
    by_seen: BTreeMap<u64, usize>,
    /// Where inputs of a campaign are written.
    folder: PathBuf,
}

impl Corpus {
    /// The inputs of the repository, those of goldens that the target reads, and those of earlier campaigns.
    pub fn load(name: &str, folder: &Path) -> Corpus {
        let own = folder.join(name);
        let mut seeds = files(&repository().join("fuzz/corpus").join(name));
        seeds.extend(files(&own));
        for golden in goldens(name) {
            seeds.extend(files(&repository().join("tests").join(golden)));
        }
        seeds.retain(|seed| seed.len() <= MAX_BYTES);
        seeds.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
        seeds.dedup();
        let made = std::fs::create_dir_all(&own);
        assert!(made.is_ok(), "{} cannot be made: {made:?}", own.display());
        Corpus { inputs: Vec::new(), seeds, by_seen: BTreeMap::new(), folder: own }
    }

    /// Inputs that there were at the start, shortest first.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        self.seeds.clone()
    }

    /// Inputs that show something; the first ones where nothing was shown yet.
    pub fn inputs(&self) -> &[Vec<u8>] {
        if self.inputs.is_empty() { &self.seeds } else { &self.inputs }
    }

    /// How many are kept.
    pub fn kept(&self) -> usize {
        self.inputs.len()
    }

    /// Keeps an input if it shows something new, or the same in fewer bytes.
    pub fn offer(&mut self, seen: u64, input: &[u8]) {
        if input.len() > MAX_BYTES {
            return;
        }
        let file = self.folder.join(format!("{seen:016x}"));
        match self.by_seen.get(&seen).copied() {
            Some(at) => {
                let Some(known) = self.inputs.get_mut(at).filter(|known| known.len() > input.len()) else {
                    return;
                };
                *known = input.to_vec();
            }
            None if self.inputs.len() >= MAX_KEPT => return,
            None => {
                self.by_seen.insert(seen, self.inputs.len());
                self.inputs.push(input.to_vec());
            }
        }
        write(&file, input);
    }
}

/// Folders of `tests` whose files a target reads.
fn goldens(name: &str) -> &'static [&'static str] {
    match name {
        "notation_program" => &["parse", "check", "lower", "show"],
        "machine_file" => &["machines"],
        "program_text" => &["program", "sim"],
        "neuron_program" => &["neuron"],
        "graph_text" => &["graph", "general"],
        "kernel_text" => &["kernels"],
        "lowered_text" => &["lowered"],
        "schedule_text" => &["schedule"],
        _ => &[],
    }
}

/// Contents of all files of a folder, in the order of their names.
fn files(folder: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| read(path)).collect()
}

fn read(path: &Path) -> Option<Vec<u8>> {
    std::fs::read(path).ok()
}

fn write(path: &Path, bytes: &[u8]) {
    let written = std::fs::write(path, bytes);
    assert!(written.is_ok(), "{} cannot be written: {written:?}", path.display());
}

/// Keeps the input of a fault, and says where.
pub(super) fn write_fault(folder: &Path, name: &str, kind: &str, input: &[u8]) -> PathBuf {
    let mixed = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
    let hash = input.iter().fold(0xCBF2_9CE4_8422_2325, mixed);
    let faults = folder.join("faults");
    let made = std::fs::create_dir_all(&faults);
    assert!(made.is_ok(), "{} cannot be made: {made:?}", faults.display());
    let path = faults.join(format!("{name}-{kind}-{hash:016x}"));
    write(&path, input);
    path
}
