//! A run from a Perfetto trace that a verb of ours wrote: tracks, commands with their counts, flows,
//! counters.
//!
//! Fields are those of `protos/perfetto/trace` of the public repository google/perfetto. What a trace does
//! not hold (findings, energy by component, the program) the page does without.

mod wire;

use std::collections::BTreeMap;

use thiserror::Error;
use wire::{WireFields, WireValue};

use crate::columns::NumberColumn;
use crate::rows::{CommandColumns, CommandRow, CommandTexts, columns};
use crate::run_view::{CounterView, RunView, TrackView};

/// Most tracks and counters of a trace.
const MOST_TRACKS: usize = 1 << 16;

/// Why bytes are no trace that can be shown.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TraceError {
    /// The bytes end within a field.
    #[error("the trace is cut off: a field that starts before byte {at_byte} goes on behind its end")]
    Cut {
        /// Where it stops, within its message.
        at_byte: usize,
    },
    /// A number of more than ten bytes.
    #[error("no trace: the number before byte {at_byte} has no end")]
    Varint {
        /// Where.
        at_byte: usize,
    },
    /// A kind of field that protobuf does not have any more.
    #[error("no trace: a field of wire type {kind} before byte {at_byte}")]
    WireType {
        /// Which.
        kind: u64,
        /// Where.
        at_byte: usize,
    },
    /// A trace of something else, or none.
    #[error("the bytes hold no track with commands on it")]
    Empty,
    /// More tracks than a page shows.
    #[error("the trace has more than {MOST_TRACKS} tracks")]
    TooManyTracks,
}

/// Reads a trace.
///
/// # Errors
/// Bytes that are cut off, or no trace at all.
pub fn view_of_trace(name: &str, bytes: &[u8]) -> Result<RunView, TraceError> {
    let mut read = ReadTrace::default();
    for field in WireFields::new(bytes) {
        if let (1, packet) = field? {
            read.packet(packet.bytes())?;
        }
    }
    read.view(name)
}

/// A track or a counter of the trace.
#[derive(Debug, Default)]
struct TraceTrack {
    name: String,
    parent: u64,
    /// Unit of the values, for a counter.
    unit: Option<String>,
    /// Commands that have started and not ended.
    open: Vec<TraceSlice>,
    samples: Vec<(u64, u64)>,
}

/// A command of the trace.
#[derive(Debug, Default)]
struct TraceSlice {
    track_uuid: u64,
    start_ns: u64,
    end_ns: u64,
    exact_ps: Option<(u64, u64)>,
    numbers: [u64; 4],
    flows: Vec<u64>,
}

/// What was read so far.
#[derive(Debug, Default)]
struct ReadTrace {
    tracks: BTreeMap<u64, TraceTrack>,
    /// In the order in which they were described.
    order: Vec<u64>,
    slices: Vec<TraceSlice>,
    texts: CommandTexts,
    names: BTreeMap<u64, String>,
    annotation_names: BTreeMap<u64, String>,
    annotation_texts: BTreeMap<u64, String>,
}

impl ReadTrace {
    fn packet(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        let (mut at_ns, mut event) = (0, None);
        for field in WireFields::new(bytes) {
            match field? {
                (8, value) => at_ns = value.number(),
                (11, value) => event = Some(value.bytes()),
                (12, value) => self.interned(value.bytes())?,
                (60, value) => self.described(value.bytes())?,
                _ => {}
            }
        }
        event.map_or(Ok(()), |event| self.event(at_ns, event))
    }

    fn interned(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        for field in WireFields::new(bytes) {
            let (number, value) = field?;
            let table = match number {
                2 => &mut self.names,
                3 => &mut self.annotation_names,
                29 => &mut self.annotation_texts,
                _ => continue,
            };
            let (mut iid, mut text) = (0, String::new());
            for field in WireFields::new(value.bytes()) {
                match field? {
                    (1, value) => iid = value.number(),
                    (2, value) => text = value.text(),
                    _ => {}
                }
            }
            table.insert(iid, text);
        }
        Ok(())
    }

    fn described(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        let (mut uuid, mut track) = (0, TraceTrack::default());
        for field in WireFields::new(bytes) {
            match field? {
                (1, value) => uuid = value.number(),
                (2, value) => track.name = value.text(),
                (5, value) => track.parent = value.number(),
                (8, value) => track.unit = Some(unit(value.bytes())?),
                _ => {}
            }
        }
        if self.tracks.len() >= MOST_TRACKS {
            return Err(TraceError::TooManyTracks);
        }
        if self.tracks.insert(uuid, track).is_none() {
            self.order.push(uuid);
        }
        Ok(())
    }

    fn event(&mut self, at_ns: u64, bytes: &[u8]) -> Result<(), TraceError> {
        let (mut kind, mut uuid, mut value) = (0, 0, 0);
        let mut slice = TraceSlice { start_ns: at_ns, ..TraceSlice::default() };
        let (mut name, mut notes) = (String::new(), SliceNotes::default());
        for field in WireFields::new(bytes) {
            match field? {
                (4, note) => self.annotation(note.bytes(), &mut notes)?,
                (9, number) => kind = number.number(),
                (10, iid) => name = self.names.get(&iid.number()).cloned().unwrap_or_default(),
                (11, number) => uuid = number.number(),
                (23, text) => name = text.text(),
                (30, number) => value = number.number(),
                (47, WireValue::Number(flow)) => slice.flows.push(flow),
                _ => {}
            }
        }
        let Some(track) = self.tracks.get_mut(&uuid) else { return Ok(()) };
        match kind {
            1 => {
                slice.track_uuid = uuid;
                slice.exact_ps = notes.start_ps.zip(notes.end_ps).filter(|(start, end)| start <= end);
                slice.numbers = [
                    self.texts.names.number(&name),
                    self.texts.stages.number(&notes.binding),
                    self.texts.sources.number(&notes.source),
                    self.texts.detail(notes.counts),
                ];
                track.open.push(slice);
            }
            2 => {
                if let Some(mut begun) = track.open.pop() {
                    begun.end_ns = at_ns.max(begun.start_ns);
                    self.slices.push(begun);
                }
            }
            4 => track.samples.push((at_ns, value)),
            _ => {}
        }
        Ok(())
    }

    fn annotation(&self, bytes: &[u8], notes: &mut SliceNotes) -> Result<(), TraceError> {
        let (mut name, mut text, mut count) = (String::new(), None, None);
        for field in WireFields::new(bytes) {
            match field? {
                (1, iid) => name = self.annotation_names.get(&iid.number()).cloned().unwrap_or_default(),
                (3, number) => count = Some(number.number()),
                (6, value) => text = Some(value.text()),
                (10, value) => name = value.text(),
                (17, iid) => text = self.annotation_texts.get(&iid.number()).cloned(),
                _ => {}
            }
        }
        match (name.as_str(), text, count) {
            ("binding", Some(text), _) => notes.binding = text,
            ("source", Some(text), _) => notes.source = text,
            ("start_ps", _, Some(ps)) => notes.start_ps = Some(ps),
            ("end_ps", _, Some(ps)) => notes.end_ps = Some(ps),
            ("start_cycles" | "end_cycles", _, _) => {}
            (_, _, Some(count)) => notes.counts.push((name, count)),
            _ => {}
        }
        Ok(())
    }

    fn view(self, name: &str) -> Result<RunView, TraceError> {
        if self.slices.is_empty() {
            return Err(TraceError::Empty);
        }
        let exact = self.slices.iter().all(|slice| slice.exact_ps.is_some());
        let scale = if exact { 1000 } else { 1 };
        let (tracks, numbers) = self.track_views();
        let counters = self.counter_views(scale);
        let rows = command_rows(&self.slices, &numbers, exact);
        let ticks = rows.iter().map(|row| row.end).max().unwrap_or_default();
        let CommandColumns { lanes, flows, .. } = columns(rows);
        let CommandTexts { names, stages, sources, details, .. } = self.texts;
        Ok(RunView {
            name: name.to_string(),
            ticks_per_s: 1_000_000_000 * scale,
            tick: if exact { "ps" } else { "ns" },
            ticks,
            tracks,
            name_lines: vec![None; names.texts.len()],
            names: names.texts,
            stages: stages.texts,
            sources: sources.texts,
            details,
            lanes,
            flows,
            counters,
            ..RunView::default()
        })
    }

    /// Tracks that may hold commands, parents before children; and the number of each, where further lanes of
    /// a track have the number of the first.
    fn track_views(&self) -> (Vec<TrackView>, BTreeMap<u64, u32>) {
        let (mut views, mut numbers) = (Vec::<TrackView>::new(), BTreeMap::new());
        let mut known: BTreeMap<(u64, &str), u32> = BTreeMap::new();
        for uuid in &self.order {
            let Some(track) = self.tracks.get(uuid).filter(|track| track.unit.is_none()) else { continue };
            if let Some(number) = known.get(&(track.parent, track.name.as_str())) {
                numbers.insert(*uuid, *number);
                continue;
            }
            let number = u32::try_from(views.len()).unwrap_or(u32::MAX);
            let above = numbers.get(&track.parent).and_then(|parent: &u32| views.get(*parent as usize));
            let (path, depth) = match above {
                Some(above) => (format!("{}/{}", above.path, track.name), above.depth + 1),
                None => (track.name.clone(), 0),
            };
            views.push(TrackView { name: track.name.clone(), path, kind: String::new(), depth });
            numbers.insert(*uuid, number);
            known.insert((track.parent, track.name.as_str()), number);
        }
        (views, numbers)
    }

    fn counter_views(&self, scale: u64) -> Vec<CounterView> {
        let mut views = Vec::new();
        for uuid in &self.order {
            let Some(track) = self.tracks.get(uuid) else { continue };
            let Some(unit) = &track.unit else { continue };
            let mut samples = track.samples.clone();
            samples.sort_by_key(|(at_ns, _)| *at_ns);
            let (mut data, mut before) = (NumberColumn::default(), 0);
            for (at_ns, value) in &samples {
                let at = at_ns.saturating_mul(scale);
                data.push(at - before);
                data.push(*value);
                before = at;
            }
            views.push(CounterView {
                path: self.path(*uuid),
                unit: unit.clone(),
                peak: samples.iter().map(|(_, value)| *value).max().unwrap_or_default(),
                count: samples.len() as u64,
                data: data.base64(),
            });
        }
        views
    }

    /// Names from the root; a trace whose parents go in a circle ends somewhere.
    fn path(&self, uuid: u64) -> String {
        let (mut names, mut next) = (Vec::new(), Some(uuid));
        while let Some(track) = next.and_then(|uuid| self.tracks.get(&uuid)).filter(|_| names.len() < 16) {
            names.push(track.name.as_str());
            next = Some(track.parent);
        }
        names.reverse();
        names.join("/")
    }
}

/// What a command of the trace is annotated with.
#[derive(Debug, Default)]
struct SliceNotes {
    binding: String,
    source: String,
    start_ps: Option<u64>,
    end_ps: Option<u64>,
    counts: Vec<(String, u64)>,
}

fn unit(bytes: &[u8]) -> Result<String, TraceError> {
    let mut unit = "count".to_string();
    for field in WireFields::new(bytes) {
        match field? {
            (3, value) if value.number() == 3 => unit = "bytes".to_string(),
            (6, value) if value.bytes() == b"mW" => unit = "milliwatts".to_string(),
            _ => {}
        }
    }
    Ok(unit)
}

/// Commands in order; of those that share a flow the first raises it and the others wait.
fn command_rows(slices: &[TraceSlice], numbers: &BTreeMap<u64, u32>, exact: bool) -> Vec<CommandRow> {
    let mut first: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    for (at, slice) in slices.iter().enumerate() {
        for flow in &slice.flows {
            let entry = first.entry(*flow).or_insert((slice.start_ns, at));
            *entry = (*entry).min((slice.start_ns, at));
        }
    }
    let row = |(at, slice): (usize, &TraceSlice)| {
        let (start, end) = match slice.exact_ps.filter(|_| exact) {
            Some(exact) => exact,
            None => (slice.start_ns, slice.end_ns),
        };
        let raises = |flow: &&u64| first.get(flow).is_some_and(|(_, first)| *first == at);
        let (signals, waits): (Vec<_>, Vec<_>) = slice.flows.iter().partition(raises);
        let track = numbers.get(&slice.track_uuid).copied().unwrap_or_default();
        CommandRow { track, start, end, numbers: slice.numbers, kernel: None, signals, waits }
    };
    slices.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use proptest::prelude::*;
    use tilewright_record::{
        FlowId, Interval, KeepAll, Layout, Record, Recorder, Sample, TrackKind, Unit, perfetto,
    };

    use super::*;
    use crate::view_of_record;

    fn record(clock_hz: u64) -> Record {
        let mut layout = Layout::new(NonZeroU64::new(clock_hz).unwrap());
        let chip = layout.add_track(None, TrackKind::Chip, "chip0");
        let main = layout.add_track(Some(chip), TrackKind::Context, "main");
        let dma = layout.add_track(Some(chip), TrackKind::Dma, "dma");
        let power = layout.add_counter(chip, "power", Unit::Milliwatts);
        let mut recorder = Recorder::new(layout, KeepAll::default()).unwrap();
        let mut load = Interval::new(dma, "load", 10, 50).with_count("bytes", 640);
        load.signals.push(FlowId(1));
        recorder.interval(load).unwrap();
        // A second lane of the same track.
        recorder.interval(Interval::new(dma, "prefetch", 20, 60)).unwrap();
        let mut multiply = Interval::new(main, "multiply <b>", 50, 90).with_count("macs", 4096);
        multiply.waits.push(FlowId(1));
        multiply.binding = Some("fetch");
        multiply.source = Some("k.py:3".into());
        recorder.interval(multiply).unwrap();
        recorder.sample(Sample { counter: power, at_cycles: 2000, value: 7 }).unwrap();
        recorder.finish().unwrap()
    }

    fn bytes(record: &Record) -> Vec<u8> {
        let mut bytes = Vec::new();
        perfetto::write(record, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_trace_shows_what_its_record_does() {
        for clock_hz in [1_000_000_000, 1_000_000_000_000] {
            let record = record(clock_hz);
            let mut direct = view_of_record("run", &record);
            let read = view_of_trace("run", &bytes(&record)).unwrap();
            // A trace says neither the kinds of tracks nor joules, and calls cycles of a nanosecond so.
            direct.tracks.iter_mut().for_each(|track| track.kind.clear());
            direct.energy_pj.clear();
            direct.tick = read.tick;
            // It ends with its last command.
            direct.ticks = read.ticks;
            // Texts are numbered as they come, and they come in the order of the record in both.
            assert_eq!(read, direct);
        }
    }

    #[test]
    fn a_trace_that_is_cut_off_says_so() {
        let whole = bytes(&record(1_000_000_000));
        let refused = (1..whole.len()).filter(|cut| view_of_trace("run", &whole[..*cut]).is_err()).count();
        // Between two packets a trace may end: what came before is shown.
        assert!(refused > whole.len() * 9 / 10, "{refused} of {}", whole.len());
        assert!(matches!(view_of_trace("run", &whole[..whole.len() - 1]), Err(TraceError::Cut { .. })));
        assert_eq!(view_of_trace("run", b""), Err(TraceError::Empty));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_view_or_an_error(given in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = view_of_trace("run", &given);
        }

        #[test]
        fn a_trace_with_one_byte_changed_gives_a_view_or_an_error(at in 0..1000_usize, to in any::<u8>()) {
            let mut changed = bytes(&record(1_000_000_000));
            let length = changed.len();
            changed[at % length] = to;
            let _ = view_of_trace("run", &changed);
        }
    }
}
