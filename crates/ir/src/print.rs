//! Statements to their one canonical text: two blanks for each block, one statement a line. A line is broken
//! only within a long list in square brackets, between its items; whatever else is too long for a line
//! belongs into a block.

use std::fmt::Write as _;

use crate::lexer::is_word;

/// Characters of a line, where it can be helped.
pub const WIDTH: usize = 110;

/// Characters of a list that stays on its line, however long that line is.
const SHORT_LIST: usize = 40;

/// A statement to be printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its first word and values, spelled out on one line.
    pub text: String,
    /// Its block, if it has one.
    pub block: Option<(BlockLayout, Vec<Item>)>,
    /// Goes on behind the closing brace of the statement before, as `else` does.
    pub joined: bool,
}

/// How a block is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockLayout {
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
        Item { text: text.into(), block: Some((BlockLayout::Lines, block)), joined: false }
    }

    /// A statement with its block on the same line if that fits.
    pub fn fit(text: impl Into<String>, block: Vec<Item>) -> Item {
        Item { text: text.into(), block: Some((BlockLayout::Fit, block)), joined: false }
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

fn on_one_line(item: &Item, layout: BlockLayout, block: &[Item], indent: usize) -> Option<String> {
    if block.is_empty() {
        return Some(format!("{} {{ }}", item.text));
    }
    if layout == BlockLayout::Lines || block.iter().any(|inner| inner.block.is_some()) {
        return None;
    }
    let length: usize = block.iter().map(|inner| inner.text.len() + 2).sum();
    if indent + item.text.len() + length + 3 > WIDTH {
        return None;
    }
    let statements: Vec<&str> = block.iter().map(|inner| inner.text.as_str()).collect();
    Some(format!("{} {{ {} }}", item.text, statements.join("; ")))
}

/// Breaks a long line within its lists: the items of each go to lines of their own, as many as fit.
fn wrap(out: &mut String, text: &str, indent: usize) {
    if indent + text.len() <= WIDTH {
        out.push_str(text);
        return;
    }
    let mut from = 0;
    for (open, commas, close) in lists(text) {
        if close - open <= SHORT_LIST || commas.is_empty() {
            continue;
        }
        out.push_str(&text[from..=open]);
        let mut start = open + 1;
        let mut room = 0;
        for end in commas.iter().map(|comma| comma + 1).chain([close]) {
            let item = text[start..end].trim_start();
            if item.len() + 1 > room {
                let _ = write!(out, "\n{:width$}", "", width = indent + 2);
                room = WIDTH.saturating_sub(indent + 2);
            } else {
                out.push(' ');
                room -= 1;
            }
            out.push_str(item);
            room = room.saturating_sub(item.len());
            start = end;
        }
        let _ = write!(out, "\n{:indent$}", "");
        from = close;
    }
    out.push_str(&text[from..]);
}

/// The outermost lists in square brackets: where each opens, the commas between its items, and where it
/// closes.
fn lists(text: &str) -> Vec<(usize, Vec<usize>, usize)> {
    let (mut found, mut commas) = (Vec::new(), Vec::new());
    let (mut depth, mut open, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'(' => {
                if depth == 0 {
                    open = at;
                }
                depth += 1;
            }
            b']' | b')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    let between = std::mem::take(&mut commas);
                    if byte == b']' {
                        found.push((open, between, at));
                    }
                }
            }
            b',' if depth == 1 => commas.push(at),
            _ => {}
        }
    }
    found
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
