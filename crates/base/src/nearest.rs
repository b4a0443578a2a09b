//! The known word nearest to one that is not known, by edit distance.

/// The nearest candidate; the first of equals. Empty if there is none.
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> &'a str {
    candidates.into_iter().min_by_key(|candidate| distance(given, candidate)).unwrap_or("")
}

/// The nearest candidate that is near: a third of the letters differ at most, upper and lower case alike.
pub fn near<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    let apart = |candidate: &str| distance(&given, &candidate.to_lowercase());
    let (edits, found) =
        candidates.into_iter().map(|word| (apart(word), word)).min_by_key(|(edits, _)| *edits)?;
    let letters = given.chars().count().max(found.chars().count());
    (3 * edits <= letters).then_some(found)
}

/// Insertions, removals and replacements of characters, and exchanges of two neighbours, that turn one word
/// into the other.
/// Only the first 64 characters of the given word count, so that long rubbish stays cheap.
fn distance(given: &str, candidate: &str) -> usize {
    let end = given.char_indices().nth(64).map_or(given.len(), |(end, _)| end);
    strsim::osa_distance(&given[..end], candidate)
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
    fn two_letters_that_changed_places_are_one_edit() {
        assert_eq!(near("tpc", ["inferentia2", "tcp"]), Some("tcp"));
    }

    #[test]
    fn what_is_far_is_not_near() {
        let names = ["Erf", "Log", "Softmax", "Einsum"];
        assert_eq!(near("SoftMax", names), Some("Softmax"));
        assert_eq!(near("Einsm", names), Some("Einsum"));
        assert_eq!(near("If", names), None);
        assert_eq!(near("LSTM", names), None);
        assert_eq!(near("x", []), None);
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
