//! Records as Perfetto traces (`perfetto.protos.Trace`), to be opened at <https://ui.perfetto.dev>.
//!
//! One packet sequence, no clock snapshot: timestamps are nanoseconds of the default trace clock, from zero.
//! Tracks and counters are described first, in the order of the layout. Then each interval is a slice begin
//! and a slice end, and each sample a counter event, in order of arrival; a reader sorts them by time and
//! keeps the order of the file among equals. A flow is written where both its ends are (`held`): a signal
//! that nobody waits for is none. The same events give the same bytes, written as they come ([`Stream`]) or
//! afterwards ([`write()`]), unless more than 65,536 events lie between the ends of a flow: then only the
//! latter has it.

mod annotate;
mod describe;
mod intern;
mod lanes;
mod message;
mod pending_events;
mod stream;

use std::io::Write;
use std::num::NonZeroU64;

use crate::error::RecordError;
use crate::event::Event;
use crate::record::Record;
use crate::sink::Sink;

pub use stream::Stream;

/// Writes what a record kept. Writes are small: give a buffered writer.
pub fn write(record: &Record, out: impl Write) -> Result<(), RecordError> {
    record.layout.check()?;
    let mut stream = Stream::new(out);
    stream.begin(&record.layout)?;
    let flows = pending_events::flows(&record.events);
    for event in &record.events {
        let mut event = event.clone();
        if let Event::Interval(interval) = &mut event {
            pending_events::keep(interval, |id, _| flows.contains(&id));
        }
        stream.write(&event)?;
    }
    stream.finish()?;
    Ok(())
}

/// The time of a cycle: `floor(cycles * 10^9 / clock_hz)`, at most the largest signed 64-bit number.
///
/// Order is kept: what does not overlap in cycles does not overlap in nanoseconds. Where the clock does
/// not divide 1 GHz the cycles of each slice are noted beside it, so that nothing is lost.
pub fn timestamp_ns(cycles: u64, clock_hz: NonZeroU64) -> u64 {
    let nanoseconds = u128::from(cycles) * u128::from(NANOSECONDS) / u128::from(clock_hz.get());
    u64::try_from(nanoseconds).unwrap_or(u64::MAX).min(i64::MAX.cast_unsigned())
}

const NANOSECONDS: u64 = 1_000_000_000;

/// Whether every cycle falls on a whole nanosecond.
fn is_exact(clock_hz: NonZeroU64) -> bool {
    NANOSECONDS.is_multiple_of(clock_hz.get())
}

/// Names of the exact times of an interval: a record that counts picoseconds has no cycles.
fn exact_names(clock_hz: NonZeroU64) -> [&'static str; 2] {
    if clock_hz.get() == 1000 * NANOSECONDS { ["start_ps", "end_ps"] } else { ["start_cycles", "end_cycles"] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_become_nanoseconds_rounded_down() {
        let ns = |cycles, clock_hz| timestamp_ns(cycles, NonZeroU64::new(clock_hz).unwrap());
        assert_eq!(ns(7, 1_000_000_000), 7);
        assert_eq!(ns(7, 500_000_000), 14);
        assert_eq!([0, 1, 2, 3, 7].map(|cycles| ns(cycles, 1_400_000_000)), [0, 0, 1, 2, 5]);
        assert_eq!(ns(u64::MAX, 1), i64::MAX.cast_unsigned());
        assert!(is_exact(NonZeroU64::new(250_000_000).unwrap()));
        assert!(!is_exact(NonZeroU64::new(1_400_000_000).unwrap()));
    }

    #[test]
    fn exact_times_are_named_after_their_unit() {
        let names = |clock_hz| exact_names(NonZeroU64::new(clock_hz).unwrap());
        assert_eq!(names(1_400_000_000), ["start_cycles", "end_cycles"]);
        assert_eq!(names(1_000_000_000_000), ["start_ps", "end_ps"]);
    }
}
