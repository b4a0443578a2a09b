//! Command lines as a shell would split them: blanks, single and double quotes, backslash, pipes.

/// Splits one command line into words.
pub fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut begun = false;
    let mut quote: Option<char> = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => word.push(c),
            (_, '\\') => word.extend(characters.next().filter(|next| *next != '\n')),
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                begun = true;
            }
            (None, c) if c.is_whitespace() => {
                if begun || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            (None, c) => word.push(c),
        }
    }
    if begun || !word.is_empty() {
        words.push(word);
    }
    words
}

/// The commands of a pipe, each as words: a word `|` of its own stands between them.
pub fn pipe(line: &str) -> Vec<Vec<String>> {
    let words = split(line);
    words.split(|word| word == "|").map(<[String]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_continued_lines() {
        let line = "show 'b^2[2] | l' --dims b=4 \\\n  -o \"a b\" ''";
        assert_eq!(split(line), ["show", "b^2[2] | l", "--dims", "b=4", "-o", "a b", ""]);
    }

    #[test]
    fn a_bar_of_its_own_is_a_pipe() {
        assert_eq!(pipe("a 'b | c' | d -"), [vec!["a", "b | c"], vec!["d", "-"]]);
    }
}
