//! The known word nearest to one that is not known, by edit distance.

/// The nearest candidate; the first of equals. Empty if there is none.
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> &'a str {
    candidates.into_iter().min_by_key(|candidate| distance(given, candidate)).unwrap_or("")
}

/// Insertions, removals and replacements of characters that turn one word into the other.
/// Only the first 64 characters of the given word count, so that long rubbish stays cheap.
fn distance(given: &str, candidate: &str) -> usize {
    let candidate: Vec<char> = candidate.chars().collect();
    let mut row: Vec<usize> = (0..=candidate.len()).collect();
    for (line, letter) in given.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, other) in candidate.iter().enumerate() {
            let replace = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replace.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[candidate.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_letter_off_is_found() {
        let keys = ["banks", "capacity_bytes", "bank_access_bytes"];
        assert_eq!(nearest("capacity_byte", keys), "capacity_bytes");
        assert_eq!(nearest("bnaks", keys), "banks");
        assert_eq!(nearest("x", []), "");
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
