//! What can be busy, what can be counted and what can use energy: fixed before a run starts.
//!
//! Ids index the vectors of one [`Layout`]. Everything is public data; [`Layout::check`] says whether it
//! makes sense, and a recorder checks before it records.

use std::collections::BTreeSet;
use std::num::NonZeroU64;

use serde::Serialize;

use crate::error::RecordError;

/// Index of a track in its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrackId(pub u32);

/// Index of a counter in its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CounterId(pub u32);

/// Index of an energy component in its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ComponentId(pub u32);

/// What a track stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TrackKind {
    /// A whole chip.
    Chip,
    /// A processing element or core of a chip.
    Core,
    /// A command context or queue of a core.
    Context,
    /// A computing engine.
    Engine,
    /// A DMA engine or queue.
    Dma,
    /// A memory; its occupancy is a counter below it.
    Memory,
}

/// Something that can be busy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// The track it belongs to, declared before it; none for a chip.
    pub parent: Option<TrackId>,
    /// What it stands for.
    pub kind: TrackKind,
    /// Its name, different from its siblings'.
    pub name: String,
}

/// The unit of a counter's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Occupancy of a memory.
    Bytes,
    /// Power.
    Milliwatts,
    /// A number of things, such as commands in a queue.
    Count,
}

/// A value over time, as a step function that starts at zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The track it belongs to.
    pub track: TrackId,
    /// Its name, different from its siblings'.
    pub name: String,
    /// The unit of its values.
    pub unit: Unit,
}

/// Clock, tracks in a forest, counters and energy components of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Cycles per second.
    pub clock_hz: NonZeroU64,
    /// Tracks, parents before children.
    pub tracks: Vec<Track>,
    /// Counters.
    pub counters: Vec<Counter>,
    /// Names of what energy is spent on, in the order of reports.
    pub components: Vec<String>,
}

/// Most tracks, counters or components of a layout.
pub const MAX_ENTRIES: usize = 1 << 20;

impl Layout {
    /// A layout with a clock and nothing else.
    pub fn new(clock_hz: NonZeroU64) -> Layout {
        Layout { clock_hz, tracks: Vec::new(), counters: Vec::new(), components: Vec::new() }
    }

    /// Adds a track below `parent`.
    pub fn add_track(
        &mut self,
        parent: Option<TrackId>,
        kind: TrackKind,
        name: impl Into<String>,
    ) -> TrackId {
        self.tracks.push(Track { parent, kind, name: name.into() });
        TrackId(last_index(self.tracks.len()))
    }

    /// Adds a counter below `track`.
    pub fn add_counter(&mut self, track: TrackId, name: impl Into<String>, unit: Unit) -> CounterId {
        self.counters.push(Counter { track, name: name.into(), unit });
        CounterId(last_index(self.counters.len()))
    }

    /// Adds an energy component.
    pub fn add_component(&mut self, name: impl Into<String>) -> ComponentId {
        self.components.push(name.into());
        ComponentId(last_index(self.components.len()))
    }

    /// The names from the root to a track, such as `chip0/pe3/main`; empty for an unknown track.
    pub fn path(&self, track: TrackId) -> String {
        let mut names = Vec::new();
        let mut next = Some(track);
        while let Some(id) = next {
            let Some(track) = self.tracks.get(id.0 as usize) else { break };
            names.push(track.name.as_str());
            next = track.parent.filter(|parent| *parent < id);
        }
        names.reverse();
        names.join("/")
    }

    /// The path of a counter: that of its track and its own name.
    pub fn counter_path(&self, counter: &Counter) -> String {
        format!("{}/{}", self.path(counter.track), counter.name)
    }

    /// Refuses a layout whose tracks are no forest or whose siblings share a name.
    pub fn check(&self) -> Result<(), RecordError> {
        for (what, count) in [
            ("tracks", self.tracks.len()),
            ("counters", self.counters.len()),
            ("components", self.components.len()),
        ] {
            if count > MAX_ENTRIES {
                return Err(RecordError::TooMany { what, count, most: MAX_ENTRIES });
            }
        }
        for (track, index) in self.tracks.iter().zip(0..) {
            if let Some(parent) = track.parent.filter(|parent| parent.0 >= index) {
                let (name, parent) = (track.name.clone(), parent.0);
                return Err(RecordError::ParentNotEarlier { track: index, name, parent });
            }
        }
        let count = self.tracks.len();
        if let Some(counter) = self.counters.iter().find(|counter| counter.track.0 as usize >= count) {
            return Err(RecordError::UnknownTrack { track: counter.track, count });
        }
        self.check_names()
    }

    fn check_names(&self) -> Result<(), RecordError> {
        let tracks = self.tracks.iter().map(|track| (track.parent, track.name.as_str()));
        let counters = self.counters.iter().map(|counter| (Some(counter.track), counter.name.as_str()));
        let mut seen = BTreeSet::new();
        match tracks.chain(counters).find(|entry| !seen.insert(*entry)) {
            Some((_, name)) => Err(RecordError::NameTaken { name: name.to_string() }),
            None => Ok(()),
        }
    }
}

/// The index of the last of `len` entries; what does not fit 32 bits is refused by [`Layout::check`].
fn last_index(len: usize) -> u32 {
    u32::try_from(len.saturating_sub(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        let mut layout = Layout::new(NonZeroU64::MIN);
        let chip = layout.add_track(None, TrackKind::Chip, "chip0");
        let core = layout.add_track(Some(chip), TrackKind::Core, "pe0");
        layout.add_track(Some(core), TrackKind::Context, "main");
        layout.add_counter(core, "dm", Unit::Bytes);
        layout
    }

    #[test]
    fn paths_go_from_root_to_leaf() {
        let layout = layout();
        assert_eq!(layout.path(TrackId(2)), "chip0/pe0/main");
        assert_eq!(layout.counter_path(&layout.counters[0]), "chip0/pe0/dm");
        assert_eq!(layout.path(TrackId(9)), "");
        assert!(layout.check().is_ok());
    }

    #[test]
    fn a_cycle_of_parents_is_refused_and_its_path_ends() {
        let mut layout = layout();
        layout.tracks[0].parent = Some(TrackId(2));
        assert_eq!(layout.path(TrackId(2)), "chip0/pe0/main");
        assert!(matches!(layout.check(), Err(RecordError::ParentNotEarlier { track: 0, parent: 2, .. })));
    }

    #[test]
    fn siblings_have_different_names() {
        let mut layout = layout();
        layout.add_track(Some(TrackId(1)), TrackKind::Memory, "dm");
        assert!(matches!(layout.check(), Err(RecordError::NameTaken { name }) if name == "dm"));
    }

    #[test]
    fn a_counter_belongs_to_a_track() {
        let mut layout = layout();
        layout.add_counter(TrackId(3), "trf", Unit::Bytes);
        assert!(matches!(layout.check(), Err(RecordError::UnknownTrack { count: 3, .. })));
    }
}
