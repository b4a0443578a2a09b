//! Writes the trace of a small run, to be opened at <https://ui.perfetto.dev>, and prints its summary.
//!
//! `cargo run -p tilewright-record --example tiny_trace -- tiny.pftrace [CLOCK_HZ]`

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::fs::File;
use std::io::BufWriter;
use std::num::NonZeroU64;

use tilewright_record::{KeepAll, Recorder, perfetto::Stream, summary};

#[path = "../tests/it/tiny/mod.rs"]
mod tiny;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: tiny_trace FILE [CLOCK_HZ]")?;
    let clock_hz: NonZeroU64 = arguments.next().as_deref().unwrap_or("1000000000").parse()?;
    let stream = Stream::new(BufWriter::new(File::create(path)?));
    let mut recorder = Recorder::new(tiny::layout(clock_hz), (KeepAll::default(), stream))?;
    tiny::run(&mut recorder)?;
    print!("{}", summary(&recorder.finish()?));
    Ok(())
}
