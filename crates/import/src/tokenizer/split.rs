//! Splitting a text before byte pair encoding: the patterns of GPT-2 and Llama 3, written out.
//!
//! GPT-2: contractions, then an optional blank with letters, with digits or with other signs, then white space, of which the last
//! blank belongs to what follows. Llama 3 takes any one sign before letters, digits by three, and line ends with what is before
//! them. Letters and digits are Unicode's categories L and N.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory as _};

/// Which pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// GPT-2.
    Gpt2 {
        /// Whether each digit stands alone.
        single_digits: bool,
    },
    /// Llama 3.
    Llama3,
}

/// The parts of a text, in order; joined they are the text.
pub fn split(text: &str, pattern: Pattern) -> Vec<&str> {
    let letters: Vec<(usize, char)> = text.char_indices().collect();
    let mut parts = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        let length = next(&letters[at..], pattern).max(1);
        let start = letters[at].0;
        let end = letters.get(at + length).map_or(text.len(), |(end, _)| *end);
        parts.push(&text[start..end]);
        at += length;
    }
    parts
}

/// How many characters the next part has.
fn next(rest: &[(usize, char)], pattern: Pattern) -> usize {
    let at = |place: usize| rest.get(place).map(|(_, letter)| *letter);
    let run = |from: usize, test: fn(char) -> bool| rest[from..].iter().take_while(|(_, l)| test(*l)).count();
    let letter = |l: char| l.general_category_group() == GeneralCategoryGroup::Letter;
    let digit = |l: char| l.general_category_group() == GeneralCategoryGroup::Number;
    let sign = |l: char| {
        let group = l.general_category_group();
        !l.is_whitespace() && group != GeneralCategoryGroup::Letter && group != GeneralCategoryGroup::Number
    };
    let end_of_line = |l: char| l == '\r' || l == '\n';
    if let Some(length) = contraction(rest, pattern == Pattern::Llama3) {
        return length;
    }
    let Some(first) = at(0) else { return 0 };
    let blank = usize::from(first == ' ');
    match pattern {
        Pattern::Llama3 => {
            let lead = usize::from(!end_of_line(first) && !letter(first) && !digit(first));
            if at(lead).is_some_and(letter) {
                return lead + run(lead, letter);
            }
            if digit(first) {
                return run(0, digit).min(3);
            }
            if at(blank).is_some_and(sign) {
                let signs = blank + run(blank, sign);
                return signs + run(signs, end_of_line);
            }
        }
        Pattern::Gpt2 { single_digits } => {
            if at(blank).is_some_and(letter) {
                return blank + run(blank, letter);
            }
            if single_digits && digit(first) {
                return 1;
            }
            // A blank before a digit that stands alone is a part of its own.
            if !single_digits && at(blank).is_some_and(digit) {
                return blank + run(blank, digit);
            }
            if at(blank).is_some_and(sign) {
                return blank + run(blank, sign);
            }
        }
    }
    let space = run(0, char::is_whitespace);
    if pattern == Pattern::Llama3
        && let Some(last) = rest[..space].iter().rposition(|(_, l)| end_of_line(*l))
    {
        return last + 1;
    }
    // White space leaves its last character to what follows, unless nothing does. Before a digit that stands alone it ends.
    let alone = pattern == Pattern::Gpt2 { single_digits: true } && at(space).is_some_and(digit);
    if space > 1 && at(space).is_some() && !alone { space - 1 } else { space }
}

/// 's 't 're 've 'm 'll 'd
fn contraction(rest: &[(usize, char)], any_case: bool) -> Option<usize> {
    if rest.first()?.1 != '\'' {
        return None;
    }
    let letter = |place: usize| {
        rest.get(place).map(|(_, letter)| if any_case { letter.to_ascii_lowercase() } else { *letter })
    };
    match (letter(1)?, letter(2)) {
        ('r' | 'v', Some('e')) | ('l', Some('l')) => Some(3),
        ('s' | 't' | 'm' | 'd', _) => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GPT2: Pattern = Pattern::Gpt2 { single_digits: false };

    #[test]
    fn parts_are_those_of_the_patterns() {
        assert_eq!(split("I'll take 12  apples!", GPT2), ["I", "'ll", " take", " 12", " ", " apples", "!"]);
        let single = Pattern::Gpt2 { single_digits: true };
        assert_eq!(split("in 2018-01", single), ["in", " ", "2", "0", "1", "8", "-", "0", "1"]);
        assert_eq!(split("(ab) 1234\n\n x", Pattern::Llama3), ["(ab", ")", " ", "123", "4", "\n\n", " x"]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(text in "\\PC*[ \\n\\t]*\\PC*", which in 0..3_usize) {
            let pattern = [GPT2, Pattern::Gpt2 { single_digits: true }, Pattern::Llama3][which];
            prop_assert_eq!(split(&text, pattern).concat(), text);
        }
    }
}
