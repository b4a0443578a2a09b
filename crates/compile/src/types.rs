//! Types of numbers as they are asked for: one for all, then others by class.

/// A text such as `int8,head=bf16`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpelledTypes {
    /// The type of all; bf16 if the text begins with a rule.
    pub base: String,
    /// Classes or names with their types, in the order of the text.
    pub rules: Vec<(String, String)>,
}

impl SpelledTypes {
    /// Takes a text apart; whether its names mean anything is for others to say.
    pub fn read(text: &str) -> SpelledTypes {
        let mut parts = text.split(',').map(str::trim).peekable();
        let base = parts.next_if(|part| !part.contains('=')).unwrap_or("bf16").to_string();
        let rule = |part: &str| match part.split_once('=') {
            Some((class, name)) => (class.trim().to_string(), name.trim().to_string()),
            None => (part.to_string(), String::new()),
        };
        SpelledTypes { base, rules: parts.map(rule).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_for_all_comes_first() {
        let rule = |class: &str, name: &str| (class.to_string(), name.to_string());
        let read = SpelledTypes::read("int8, head=bf16,x=y=z");
        assert_eq!(read.base, "int8");
        assert_eq!(read.rules, [rule("head", "bf16"), rule("x", "y=z")]);
        assert_eq!(SpelledTypes::read("head=int8").base, "bf16");
        assert_eq!(SpelledTypes::read("int8,bf16").rules, [rule("bf16", "")]);
    }
}
