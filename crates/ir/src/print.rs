//! Statements to their one canonical text: two blanks for each block, one statement a line, long lists broken at commas.

use std::fmt::Write as _;

use crate::lexer::is_word;

/// Characters of a line, where it can be helped.
pub const WIDTH: usize = 100;

/// A statement to be printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its first word and values, spelled out on one line.
    pub text: String,
    /// Its block, if it has one.
    pub block: Option<(Layout, Vec<Item>)>,
    /// Goes on behind the closing brace of the statement before, as `else` does.
    pub joined: bool,
}

/// How a block is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A line for each statement.
    Lines,
    /// All on one line if it has no block within and fits.
    Fit,
}

impl Item {
    /// A statement without a block.
    pub fn line(text: impl Into<String>) -> Item {
        Item { text: text.into(), block: None, joined: false }
    }

    /// A statement with a line for each statement of its block.
    pub fn lines(text: impl Into<String>, block: Vec<Item>) -> Item {
        Item { text: text.into(), block: Some((Layout::Lines, block)), joined: false }
    }

    /// A statement with its block on the same line if that fits.
    pub fn fit(text: impl Into<String>, block: Vec<Item>) -> Item {
        Item { text: text.into(), block: Some((Layout::Fit, block)), joined: false }
    }

    /// The same, but without a block if it would be empty.
    pub fn fit_unless_empty(text: impl Into<String>, block: Vec<Item>) -> Item {
        if block.is_empty() { Item::line(text) } else { Item::fit(text, block) }
    }

    /// The statement on the line of the closing brace before it.
    #[must_use]
    pub fn joined(self) -> Item {
        Item { joined: true, ..self }
    }
}

/// Prints statements.
pub fn print(items: &[Item]) -> String {
    let mut out = String::new();
    items.iter().for_each(|item| print_into(&mut out, item, 0));
    out
}

/// Prints one statement at a depth of blocks.
pub fn print_into(out: &mut String, item: &Item, depth: usize) {
    let indent = 2 * depth;
    if item.joined && out.ends_with("}\n") {
        out.pop();
        out.push(' ');
    } else {
        let _ = write!(out, "{:indent$}", "");
    }
    let Some((layout, block)) = &item.block else {
        wrap(out, &item.text, indent);
        out.push('\n');
        return;
    };
    if let Some(line) = on_one_line(item, *layout, block, indent) {
        out.push_str(&line);
        out.push('\n');
        return;
    }
    wrap(out, &item.text, indent);
    out.push_str(" {\n");
    block.iter().for_each(|inner| print_into(out, inner, depth + 1));
    let _ = writeln!(out, "{:indent$}}}", "");
}

fn on_one_line(item: &Item, layout: Layout, block: &[Item], indent: usize) -> Option<String> {
    if block.is_empty() {
        return Some(format!("{} {{ }}", item.text));
    }
    if layout == Layout::Lines || block.iter().any(|inner| inner.block.is_some()) {
        return None;
    }
    let length: usize = block.iter().map(|inner| inner.text.len() + 2).sum();
    if indent + item.text.len() + length + 3 > WIDTH {
        return None;
    }
    let statements: Vec<&str> = block.iter().map(|inner| inner.text.as_str()).collect();
    Some(format!("{} {{ {} }}", item.text, statements.join("; ")))
}

/// Breaks a long line behind commas within brackets.
fn wrap(out: &mut String, text: &str, indent: usize) {
    if indent + text.len() <= WIDTH {
        out.push_str(text);
        return;
    }
    let more = indent + 4;
    let (mut from, mut last_break, mut width) = (0, None, indent);
    let (mut groups, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'(' | b'[' => groups += 1,
            b')' | b']' => groups = groups.saturating_sub(1),
            b',' if groups > 0 && text.as_bytes().get(at + 1) == Some(&b' ') => last_break = Some(at + 1),
            _ => {}
        }
        if let Some(cut) = last_break.filter(|_| width + (at + 1 - from) > WIDTH) {
            let _ = write!(out, "{}\n{:more$}", &text[from..cut], "");
            (from, last_break, width) = (cut + 1, None, more);
        }
    }
    out.push_str(&text[from..]);
}

/// A name as it is written: bare if it is a word, otherwise in quotes.
pub fn name(name: &str) -> String {
    if is_word(name) { name.to_string() } else { quoted(name) }
}

/// A text in quotes.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            control if control.is_control() => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(control));
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
    out
}

/// The pattern of an f32: decimal if that reads back to the same bits, otherwise the pattern in hexadecimal.
pub fn f32_pattern(pattern: u32) -> String {
    let value = f32::from_bits(pattern);
    let decimal = format!("{value:?}");
    let same = value.is_finite() && decimal.parse::<f32>().is_ok_and(|back| back.to_bits() == pattern);
    if same { decimal } else { format!("{pattern:#x}") }
}

/// `[a, b, c]`
pub fn list<T>(items: &[T], spell: impl Fn(&T) -> String) -> String {
    let items: Vec<String> = items.iter().map(spell).collect();
    format!("[{}]", items.join(", "))
}
