//! Regions and tensor numbers: `t3 tile=1 rows=0 to 128 pitch=2048 bytes=0 to 512 sparse`.

use std::fmt::Write as _;

use tilewright_base::Diagnostic;
use tilewright_ir::{Args, Read};

use crate::region::TensorRegion;

/// The number of a tensor: `t3`.
pub(super) fn read_tensor(args: &mut Args<'_>) -> Read<u32> {
    const WANTED: &str = "a tensor, as t0";
    let word = args.word(WANTED)?;
    let digits = word.text.strip_prefix('t').filter(|digits| *digits == "0" || !digits.starts_with('0'));
    let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
        let complaint = Diagnostic::error("ir/value", format!("`{}` is no tensor", word.text));
        Box::new(complaint.at(word.span, "").allowed(WANTED).instead("t and the number of the tensor"))
    })
}

/// `FIRST to END`.
fn read_range(args: &mut Args<'_>, name: &str) -> Read<(u64, u64)> {
    args.named(name)?;
    let first = args.unsigned("the first")?;
    args.keyword("to")?;
    Ok((first, args.unsigned("one past the last")?))
}

pub(super) fn read_region(args: &mut Args<'_>) -> Read<TensorRegion> {
    let storage = read_tensor(args)?;
    let tile = if args.eat_named("tile") { args.integer("the number of a tile")? } else { 0 };
    let mut ahead = args.clone();
    let (mut rows, mut pitch_bytes) = ((0, 1), 0);
    if ahead.eat_named("rows") {
        rows = read_range(args, "rows")?;
        args.named("pitch")?;
        pitch_bytes = args.unsigned("bytes from row to row")?;
    }
    let bytes = read_range(args, "bytes")?;
    Ok(TensorRegion { storage, tile, pitch_bytes, rows, bytes, sparse: args.eat_word("sparse") })
}

pub(super) fn print_region(region: &TensorRegion) -> String {
    let TensorRegion { storage, tile, pitch_bytes, rows, bytes, sparse } = region;
    let mut text = format!("t{storage}");
    if *tile != 0 {
        let _ = write!(text, " tile={tile}");
    }
    if (*rows, *pitch_bytes) != ((0, 1), 0) {
        let _ = write!(text, " rows={} to {} pitch={pitch_bytes}", rows.0, rows.1);
    }
    let _ = write!(text, " bytes={} to {}", bytes.0, bytes.1);
    if *sparse {
        text.push_str(" sparse");
    }
    text
}
