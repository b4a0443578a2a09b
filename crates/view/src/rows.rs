//! Commands in rows, and rows in lanes: what timelines from records and from traces share.

use std::collections::BTreeMap;

use crate::columns::NumberColumn;
use crate::run_view::LaneView;

/// One command of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandRow {
    /// Number of its track.
    pub(crate) track: u32,
    /// First tick.
    pub(crate) start: u64,
    /// The tick after the last.
    pub(crate) end: u64,
    /// Numbers of name, stage, source and detail.
    pub(crate) numbers: [u64; 4],
    /// Number of the kernel that it belongs to, if that is known.
    pub(crate) kernel: Option<u32>,
    /// Signals that it raises.
    pub(crate) signals: Vec<u64>,
    /// Signals that it waited for.
    pub(crate) waits: Vec<u64>,
}

/// Commands as the page has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CommandColumns {
    /// Lanes, none of whose commands overlap.
    pub(crate) lanes: Vec<LaneView>,
    /// Flows between commands.
    pub(crate) flows: String,
    /// Kernels of commands: how many that follow each other are of the same, and its number from 1; 0 for
    /// none.
    pub(crate) kernels: String,
}

/// Commands by lane, with flows and kernels by their numbers in the order of lanes.
pub(crate) fn columns(rows: Vec<CommandRow>) -> CommandColumns {
    let mut by_track: BTreeMap<u32, Vec<CommandRow>> = BTreeMap::new();
    for row in rows {
        by_track.entry(row.track).or_default().push(row);
    }
    let lanes: Vec<Vec<CommandRow>> = by_track.into_values().flat_map(apart).collect();
    CommandColumns {
        lanes: lanes.iter().map(|lane| view(lane)).collect(),
        flows: flows(&lanes),
        kernels: kernels(&lanes),
    }
}

fn kernels(lanes: &[Vec<CommandRow>]) -> String {
    let mut data = NumberColumn::default();
    let all: Vec<Option<u32>> = lanes.iter().flatten().map(|row| row.kernel).collect();
    for same in all.chunk_by(|one, next| one == next) {
        data.push(same.len() as u64);
        data.push(same.first().copied().flatten().map_or(0, |kernel| u64::from(kernel) + 1));
    }
    data.base64()
}

/// Each command goes to the first lane that is free.
fn apart(mut rows: Vec<CommandRow>) -> Vec<Vec<CommandRow>> {
    rows.sort_by_key(|row| (row.start, row.end));
    let mut lanes: Vec<Vec<CommandRow>> = Vec::new();
    for row in rows {
        let free = lanes.iter_mut().find(|lane| lane.last().is_none_or(|last| last.end <= row.start));
        match free {
            Some(lane) => lane.push(row),
            None => lanes.push(vec![row]),
        }
    }
    lanes
}

fn view(lane: &[CommandRow]) -> LaneView {
    let mut data = NumberColumn::default();
    let mut before = 0;
    for row in lane {
        data.push(row.start - before);
        data.push(row.end.saturating_sub(row.start));
        row.numbers.into_iter().for_each(|number| data.push(number));
        before = row.start;
    }
    let track = lane.first().map_or(0, |row| row.track);
    LaneView { track, count: lane.len() as u64, data: data.base64() }
}

/// Pairs of commands by their numbers in the order of lanes: the later one as the distance to the pair
/// before, then the one that it waited for.
fn flows(lanes: &[Vec<CommandRow>]) -> String {
    let all = || (0_u64..).zip(lanes.iter().flatten());
    let mut raised: BTreeMap<u64, u64> = BTreeMap::new();
    for (number, row) in all() {
        for id in &row.signals {
            raised.entry(*id).or_insert(number);
        }
    }
    let mut data = NumberColumn::default();
    let mut before = 0;
    for (number, row) in all() {
        for id in &row.waits {
            let Some(from) = raised.get(id).filter(|from| **from != number) else { continue };
            data.push(number - before);
            data.push(*from);
            before = number;
        }
    }
    data.base64()
}

/// Texts by number, each of them once.
#[derive(Debug, Default)]
pub(crate) struct TextNumbers {
    /// In the order of their numbers.
    pub(crate) texts: Vec<String>,
    numbers: BTreeMap<String, u64>,
}

impl TextNumbers {
    /// With the empty text as the first.
    pub(crate) fn starting_empty() -> TextNumbers {
        let mut numbers = TextNumbers::default();
        numbers.number("");
        numbers
    }

    /// The number of a text.
    pub(crate) fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as u64;
        self.texts.push(text.to_string());
        self.numbers.insert(text.to_string(), number);
        number
    }
}

/// Texts and counts of commands, each of them once.
#[derive(Debug)]
pub(crate) struct CommandTexts {
    pub(crate) names: TextNumbers,
    pub(crate) stages: TextNumbers,
    pub(crate) sources: TextNumbers,
    pub(crate) details: Vec<Vec<(String, u64)>>,
    detail_numbers: BTreeMap<Vec<(String, u64)>, u64>,
}

impl Default for CommandTexts {
    fn default() -> CommandTexts {
        CommandTexts {
            names: TextNumbers::default(),
            stages: TextNumbers::starting_empty(),
            sources: TextNumbers::starting_empty(),
            details: vec![Vec::new()],
            detail_numbers: BTreeMap::new(),
        }
    }
}

impl CommandTexts {
    /// The number of a list of counts.
    pub(crate) fn detail(&mut self, counts: Vec<(String, u64)>) -> u64 {
        if counts.is_empty() {
            return 0;
        }
        if let Some(number) = self.detail_numbers.get(&counts) {
            return *number;
        }
        let number = self.details.len() as u64;
        self.details.push(counts.clone());
        self.detail_numbers.insert(counts, number);
        number
    }
}
