//! Statements as numbered words: a tree to bytes, and bytes to a text that reads as the same tree.

use std::collections::BTreeMap;

use super::BinaryError;
use crate::parser::MAX_BLOCKS;
use crate::tree::{Bracket, Kind, Node, Sign, Tree};
use tilewright_base::invariant::OrBroken;

/// Bytes of a text that is read back, at most: words are stored once and may be named often.
const MOST_TEXT_BYTES: u64 = 1 << 28;

/// The statements of a text.
pub fn encode(tree: &Tree<'_>) -> Vec<u8> {
    let mut words = WordTable::default();
    let mut body = Vec::new();
    let statements: Vec<Node<'_>> = tree.statements().collect();
    block(tree, &statements, &mut words, &mut body);
    let mut bytes = Vec::new();
    varint(&mut bytes, words.in_order.len() as u64);
    for word in &words.in_order {
        varint(&mut bytes, word.len() as u64);
        bytes.extend(word.as_bytes());
    }
    bytes.extend(body);
    bytes
}

#[derive(Default)]
struct WordTable<'a> {
    numbers: BTreeMap<&'a str, u64>,
    in_order: Vec<&'a str>,
}

impl<'a> WordTable<'a> {
    fn number(&mut self, word: &'a str) -> u64 {
        let next = self.in_order.len() as u64;
        *self.numbers.entry(word).or_insert_with(|| {
            self.in_order.push(word);
            next
        })
    }
}

fn block<'a>(tree: &'a Tree<'a>, statements: &[Node<'a>], words: &mut WordTable<'a>, out: &mut Vec<u8>) {
    varint(out, statements.len() as u64);
    for statement in statements {
        varint(out, words.number(statement.head().text));
        let values = statement.values();
        varint(out, values.len() as u64);
        for value in values {
            let written = tree.slice(value.start, value.end);
            match value.kind {
                Kind::Word => named(out, 0, words.number(written)),
                Kind::Float => named(out, 1, words.number(written)),
                Kind::Text => named(out, 2, words.number(written)),
                Kind::Integer { negative, hex } => {
                    named(out, 4 + u8::from(negative) + 2 * u8::from(hex), value.data);
                }
                Kind::Open(bracket) => out.push(if bracket == Bracket::Round { 8 } else { 10 }),
                Kind::Close(bracket) => out.push(if bracket == Bracket::Round { 9 } else { 11 }),
                Kind::Sign(sign) => {
                    let at = Sign::ALL
                        .iter()
                        .position(|other| *other == sign)
                        .or_broken("a sign that is not listed");
                    out.push(16 + u8::try_from(at).or_broken("more signs than a byte tells apart"));
                }
            }
        }
        out.push(u8::from(statement.has_block()));
        if statement.has_block() {
            let inner: Vec<Node<'_>> = statement.children().collect();
            block(tree, &inner, words, out);
        }
    }
}

fn named(out: &mut Vec<u8>, tag: u8, number: u64) {
    out.push(tag);
    varint(out, number);
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7F).or_broken("seven bits") | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).or_broken("a last group of more than seven bits"));
}

/// A text that reads as the statements that were encoded: a line each, not laid out further.
///
/// # Errors
/// Bytes that no [`encode`] gives.
pub fn decode(bytes: &[u8]) -> Result<String, BinaryError> {
    let mut reader = TokenReader { bytes, at: 0, words: Vec::new(), text: String::new() };
    reader.words()?;
    reader.block(0)?;
    if reader.at != bytes.len() {
        return Err(reader.meaning("bytes behind the program:", (bytes.len() - reader.at) as u64));
    }
    Ok(reader.text)
}

struct TokenReader<'a> {
    bytes: &'a [u8],
    at: usize,
    words: Vec<&'a str>,
    text: String,
}

impl<'a> TokenReader<'a> {
    fn meaning(&self, what: &'static str, found: u64) -> BinaryError {
        BinaryError::Meaning { what, found, at: self.at }
    }

    fn byte(&mut self) -> Result<u8, BinaryError> {
        let byte = self.bytes.get(self.at).copied().ok_or(BinaryError::Bounds {
            what: "the program",
            from: self.at as u64,
            to: self.at as u64 + 1,
            bytes: self.bytes.len() as u64,
        })?;
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, BinaryError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7F);
            if part.leading_zeros() < shift {
                return Err(self.meaning("a number of more than 64 bits, last byte", u64::from(byte)));
            }
            number |= part << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.meaning("a number of more than", 64))
    }

    /// A count of things that take at least a byte each.
    fn count(&mut self) -> Result<u64, BinaryError> {
        let count = self.varint()?;
        let left = (self.bytes.len() - self.at) as u64;
        if count > left {
            return Err(BinaryError::Limit { what: "a count", found: count, most: left });
        }
        Ok(count)
    }

    fn words(&mut self) -> Result<(), BinaryError> {
        for _ in 0..self.count()? {
            let length = usize::try_from(self.count()?).unwrap_or(usize::MAX);
            let word = self.bytes.get(self.at..self.at.saturating_add(length)).unwrap_or_default();
            let good = std::str::from_utf8(word);
            let word = good.map_err(|error| {
                self.meaning("a word that is not UTF-8, good bytes:", error.valid_up_to() as u64)
            })?;
            self.words.push(word);
            self.at += length;
        }
        Ok(())
    }

    fn word(&mut self) -> Result<&'a str, BinaryError> {
        let number = self.varint()?;
        let found = usize::try_from(number).ok().and_then(|number| self.words.get(number).copied());
        found.ok_or_else(|| self.meaning("word", number))
    }

    fn put(&mut self, part: &str) -> Result<(), BinaryError> {
        let bytes = (self.text.len() + part.len() + 1) as u64;
        if bytes > MOST_TEXT_BYTES {
            return Err(BinaryError::Limit { what: "bytes of text", found: bytes, most: MOST_TEXT_BYTES });
        }
        self.text.push_str(part);
        self.text.push(' ');
        Ok(())
    }

    fn block(&mut self, depth: usize) -> Result<(), BinaryError> {
        if depth > MAX_BLOCKS {
            return Err(BinaryError::Limit {
                what: "blocks within blocks",
                found: depth as u64,
                most: MAX_BLOCKS as u64,
            });
        }
        for _ in 0..self.count()? {
            let head = self.word()?;
            self.put(head)?;
            for _ in 0..self.count()? {
                self.value()?;
            }
            match self.byte()? {
                0 => self.put("\n")?,
                1 => {
                    self.put("{\n")?;
                    self.block(depth + 1)?;
                    self.put("}\n")?;
                }
                other => return Err(self.meaning("block mark", u64::from(other))),
            }
        }
        Ok(())
    }

    fn value(&mut self) -> Result<(), BinaryError> {
        let tag = self.byte()?;
        match tag {
            0..=2 => {
                let word = self.word()?;
                self.put(word)
            }
            4..=7 => {
                let (sign, magnitude) = (if tag & 1 == 1 { "-" } else { "" }, self.varint()?);
                let digits =
                    if tag & 2 == 2 { format!("{sign}{magnitude:#x}") } else { format!("{sign}{magnitude}") };
                self.put(&digits)
            }
            8 => self.put("("),
            9 => self.put(")"),
            10 => self.put("["),
            11 => self.put("]"),
            _ => match Sign::ALL.get(usize::from(tag.wrapping_sub(16))) {
                Some(sign) => self.put(sign.text()),
                None => Err(self.meaning("value", u64::from(tag))),
            },
        }
    }
}
