//! What a run left behind, and the readings of it that any simulator shares.
//!
//! A simulator describes what can be busy ([`Layout`]), feeds a [`Recorder`] while it runs, and ends with
//! a [`Record`]. A [`Sink`] behind the recorder decides how much is kept: everything ([`KeepAll`]), the
//! last of it ([`KeepLast`]), or a Perfetto trace written as the run goes ([`perfetto::Stream`]).
//! [`Totals`] are complete whatever is kept, and memory grows with what is kept, not with simulated time.
//!
//! ```
//! use std::num::NonZeroU64;
//! use tilewright_record::{Interval, KeepAll, Layout, Recorder, TrackKind, summary};
//!
//! let mut layout = Layout::new(NonZeroU64::new(1_000_000_000).unwrap());
//! let chip = layout.add_track(None, TrackKind::Chip, "chip0");
//! let main = layout.add_track(Some(chip), TrackKind::Context, "main");
//! let mut recorder = Recorder::new(layout, KeepAll::default())?;
//! recorder.interval(Interval::new(main, "exec", 100, 300).with_count("macs", 4096))?;
//! recorder.advance(400);
//! let record = recorder.finish()?;
//! assert_eq!(record.totals.tracks[1].busy_cycles, 200);
//! assert!(summary(&record).contains("50.0 %"));
//! let mut trace = Vec::new();
//! tilewright_record::perfetto::write(&record, &mut trace)?;
//! # Ok::<(), tilewright_record::RecordError>(())
//! ```

mod busy_time;
mod error;
mod event;
pub mod json;
mod layout;
pub mod perfetto;
mod record;
mod recorder;
mod sink;
mod summary;
mod totals;

pub use error::RecordError;
pub use event::{Counts, Event, FlowId, Interval, Sample};
pub use layout::{ComponentId, Counter, CounterId, Layout, MAX_ENTRIES, Track, TrackId, TrackKind, Unit};
pub use record::{Flow, Record};
pub use recorder::Recorder;
pub use sink::{KeepAll, KeepLast, Sink};
pub use summary::{LONGEST_SHOWN, summary};
pub use totals::{CounterTotals, Totals, TrackTotals, utilisation_ppm};
