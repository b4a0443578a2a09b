//! What a published row was used for, and errors by that: rows that a figure was fitted to or derived from
//! say nothing about how well others are predicted.
//!
//! A row is `calibration`, `development` or `held-out`. Which new rows are held out is decided by a hash of
//! the row's id alone ([`is_set_aside`]), so that nobody chooses; errors of held-out rows are given as a
//! summary, never one by one.

use serde::{Deserialize, Serialize};
use tilewright_report::columns::{Align, table};

/// What a row was used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowKind {
    /// A figure of a machine file was fitted to it or derived from it.
    Calibration,
    /// It was seen while rules were written.
    Development,
    /// It was never used, and its error is only part of a summary.
    HeldOut,
}

impl RowKind {
    /// All kinds, those that say most last.
    pub const ALL: [RowKind; 3] = [RowKind::Calibration, RowKind::Development, RowKind::HeldOut];

    /// The word of `bench/published.toml`.
    pub fn name(self) -> &'static str {
        match self {
            RowKind::Calibration => "calibration",
            RowKind::Development => "development",
            RowKind::HeldOut => "held-out",
        }
    }
}

/// Whether a row that enters under this id (`chip/group/name`) is held out: a third of all ids are, by
/// their hash (64-bit FNV-1a).
pub fn is_set_aside(id: &str) -> bool {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = id.bytes().fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    hash.is_multiple_of(3)
}

/// Errors of the rows of one kind, as parts of the published value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindErrors {
    /// The kind.
    pub kind: RowKind,
    /// Rows that have a value of ours.
    pub rows: usize,
    /// Rows that have none.
    pub without: usize,
    /// Median of the absolute errors; nothing if no row has one.
    pub median: Option<f64>,
    /// The error that nine rows of ten do not exceed.
    pub percentile_90: Option<f64>,
    /// The largest absolute error.
    pub worst: Option<f64>,
    /// The row that has it; none for held-out rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_row: Option<String>,
}

/// Errors by kind, of rows by their kind, name and error.
pub fn by_kind(rows: &[(RowKind, &str, Option<f64>)]) -> Vec<KindErrors> {
    RowKind::ALL.iter().map(|kind| of_kind(*kind, rows)).collect()
}

fn of_kind(kind: RowKind, rows: &[(RowKind, &str, Option<f64>)]) -> KindErrors {
    let of = rows.iter().filter(|(found, ..)| *found == kind);
    let mut errors: Vec<(f64, &str)> =
        of.clone().filter_map(|(_, name, error)| Some((error.as_ref()?.abs(), *name))).collect();
    errors.sort_by(|one, other| one.0.total_cmp(&other.0));
    let worst_row = errors.last().filter(|_| kind != RowKind::HeldOut).map(|(_, name)| (*name).to_string());
    let sizes: Vec<f64> = errors.iter().map(|(size, _)| *size).collect();
    KindErrors {
        kind,
        rows: sizes.len(),
        without: of.count() - sizes.len(),
        median: median(&sizes),
        percentile_90: percentile_90(&sizes),
        worst: sizes.last().copied(),
        worst_row,
    }
}

/// Of rising values: the middle one, or the mean of both.
fn median(values: &[f64]) -> Option<f64> {
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

/// Of rising values: the least that nine of ten do not exceed.
fn percentile_90(values: &[f64]) -> Option<f64> {
    values.get((values.len() * 9).div_ceil(10).checked_sub(1)?).copied()
}

/// Errors by kind as a table.
pub fn text(errors: &[KindErrors]) -> String {
    let head = ["kind", "rows", "median", "90th percentile", "worst", ""];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    let part = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{:.1} %", value * 100.0));
    for found in errors {
        rows.push(vec![
            found.kind.name().to_string(),
            found.rows.to_string(),
            part(found.median),
            part(found.percentile_90),
            part(found.worst),
            found.worst_row.clone().unwrap_or_default(),
        ]);
    }
    let mut aligns = [Align::Right; 6];
    (aligns[0], aligns[5]) = (Align::Left, Align::Left);
    table(&aligns, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_kept_apart() {
        let rows = [
            (RowKind::Calibration, "a", Some(0.0)),
            (RowKind::Development, "b", Some(-0.5)),
            (RowKind::Development, "c", Some(0.1)),
            (RowKind::Development, "d", None),
            (RowKind::HeldOut, "e", Some(0.3)),
        ];
        let found = by_kind(&rows);
        assert_eq!((found[0].rows, found[0].worst), (1, Some(0.0)));
        assert_eq!((found[1].rows, found[1].without, found[1].median), (2, 1, Some(0.3)));
        assert_eq!((found[1].worst, found[1].worst_row.as_deref()), (Some(0.5), Some("b")));
        assert_eq!((found[2].worst, found[2].worst_row.clone()), (Some(0.3), None));
        assert_eq!(by_kind(&[])[2].median, None);
    }

    #[test]
    fn nine_of_ten_do_not_exceed_the_percentile() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!((median(&values), percentile_90(&values)), (Some(5.5), Some(9.0)));
        assert_eq!((median(&values[..1]), percentile_90(&values[..1])), (Some(1.0), Some(1.0)));
    }

    #[test]
    fn about_a_third_of_ids_is_set_aside() {
        let count = (0..3000).filter(|number| is_set_aside(&format!("chip/group/{number}"))).count();
        assert!((900..1100).contains(&count), "{count}");
    }
}
