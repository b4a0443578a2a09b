//! An input from others: a few changes of bytes, numbers, lines and pieces, or two inputs joined.

use tilewright_base::random;

/// Longest input; what is longer is cut.
const MAX_BYTES: usize = 1 << 14;
/// Changes of one input, at most.
const MAX_CHANGES: u64 = 6;

/// Numbers at the edges of their types, as text.
const NUMBERS: [&str; 18] = [
    "0",
    "1",
    "-1",
    "2",
    "7",
    "8",
    "127",
    "128",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "1e308",
    "NaN",
];
/// The same as bytes, first byte lowest.
const WORDS: [u64; 10] =
    [0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x7FFF_FFFF_FFFF_FFFF, u64::MAX];
/// Signs that texts of this project are made of.
const SIGNS: &[u8] = b"[](){}|^=:,;.+-*/%<>\"'`#@_ \n\t0aZ\x00\xFF";

/// Draws inputs; the same numbers give the same inputs.
#[derive(Clone, Debug)]
pub struct Mutator {
    state: u64,
}

impl Mutator {
    /// From a first number.
    pub fn new(seed: u64) -> Mutator {
        Mutator { state: seed }
    }

    /// A number below another; 0 below 0.
    fn below(&mut self, most: usize) -> usize {
        if most == 0 {
            return 0;
        }
        usize::try_from(random::below(&mut self.state, most as u64)).unwrap_or(0)
    }

    fn pick<'i, T>(&mut self, items: &'i [T]) -> Option<&'i T> {
        let at = self.below(items.len());
        items.get(at)
    }

    /// An input that is a little different from one of these.
    pub fn input(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input = self.pick(corpus).cloned().unwrap_or_default();
        let changes = 1 + random::below(&mut self.state, MAX_CHANGES);
        for _ in 0..changes {
            self.change(&mut input, corpus);
        }
        input.truncate(MAX_BYTES);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        match self.below(12) {
            0 => self.flip(input),
            1 => self.set_byte(input),
            2 => self.remove(input),
            3 => self.repeat(input),
            4 => self.number(input),
            5 => self.word(input),
            6 => self.line(input),
            7 => self.splice(input, corpus),
            8 => self.insert(input),
            9 => self.swap(input),
            10 => input.truncate(self.below(input.len() + 1)),
            _ => self.digits(input),
        }
    }

    fn flip(&mut self, input: &mut [u8]) {
        let (at, bit) = (self.below(input.len()), self.below(8));
        if let Some(byte) = input.get_mut(at) {
            *byte ^= 1 << bit;
        }
    }

    fn set_byte(&mut self, input: &mut [u8]) {
        let (at, sign) = (self.below(input.len()), self.below(SIGNS.len()));
        if let Some(byte) = input.get_mut(at) {
            *byte = SIGNS[sign];
        }
    }

    /// Start and end of a piece, most of them short.
    fn piece(&mut self, len: usize) -> (usize, usize) {
        let start = self.below(len);
        let most = if self.below(4) == 0 { len - start } else { (len - start).min(16) };
        (start, start + self.below(most + 1))
    }

    fn remove(&mut self, input: &mut Vec<u8>) {
        if !input.is_empty() {
            let (start, end) = self.piece(input.len());
            input.drain(start..end);
        }
    }

    fn repeat(&mut self, input: &mut Vec<u8>) {
        if !input.is_empty() && input.len() < MAX_BYTES {
            let (start, end) = self.piece(input.len());
            let piece = input[start..end].to_vec();
            let times = 1 + self.below(4);
            let at = self.below(input.len() + 1);
            let all: Vec<u8> = std::iter::repeat_n(piece, times).flatten().collect();
            input.splice(at..at, all);
        }
    }

    fn insert(&mut self, input: &mut Vec<u8>) {
        let (at, sign) = (self.below(input.len() + 1), self.below(SIGNS.len()));
        input.insert(at, SIGNS[sign]);
    }

    fn swap(&mut self, input: &mut [u8]) {
        if !input.is_empty() {
            let (one, other) = (self.below(input.len()), self.below(input.len()));
            input.swap(one, other);
        }
    }

    /// Another number where digits stand.
    fn digits(&mut self, input: &mut Vec<u8>) {
        let starts: Vec<usize> = (0..input.len())
            .filter(|at| input[*at].is_ascii_digit() && (*at == 0 || !input[at - 1].is_ascii_digit()))
            .collect();
        let Some(start) = self.pick(&starts).copied() else { return };
        let end = (start..input.len()).find(|at| !input[*at].is_ascii_digit()).unwrap_or(input.len());
        let number = NUMBERS[self.below(NUMBERS.len())];
        input.splice(start..end, number.bytes());
    }

    fn number(&mut self, input: &mut Vec<u8>) {
        let (at, number) = (self.below(input.len() + 1), NUMBERS[self.below(NUMBERS.len())]);
        input.splice(at..at, number.bytes());
    }

    /// Another number where bytes of one may stand.
    fn word(&mut self, input: &mut [u8]) {
        let (word, size) = (WORDS[self.below(WORDS.len())], [1, 2, 4, 8][self.below(4)]);
        let at = self.below(input.len());
        let room = input.iter_mut().skip(at).take(size);
        room.zip(word.to_le_bytes()).for_each(|(byte, new)| *byte = new);
    }

    /// A line left out, moved or said twice.
    fn line(&mut self, input: &mut Vec<u8>) {
        let mut lines: Vec<Vec<u8>> =
            input.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        if lines.len() < 2 {
            return;
        }
        let (one, other) = (self.below(lines.len()), self.below(lines.len()));
        match self.below(3) {
            0 => drop(lines.remove(one)),
            1 => lines.swap(one, other),
            _ => lines.insert(other, lines[one].clone()),
        }
        *input = lines.concat();
    }

    /// A piece of another input.
    fn splice(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let Some(other) = self.pick(corpus).filter(|other| !other.is_empty()) else { return };
        let (start, end) = self.piece(other.len());
        let (from, to) = if input.is_empty() { (0, 0) } else { self.piece(input.len()) };
        input.splice(from..to, other[start..end].iter().copied());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_numbers_give_the_same_inputs_and_others_others() {
        let corpus = [b"dims a=4\nin0 a[4]\n".to_vec(), vec![0; 40], Vec::new()];
        let all = |seed: u64| {
            let mut mutator = Mutator::new(seed);
            (0..2000).map(|_| mutator.input(&corpus)).collect::<Vec<_>>()
        };
        assert_eq!(all(7), all(7));
        let different: std::collections::BTreeSet<Vec<u8>> = all(7).into_iter().collect();
        assert!(different.len() > 1000, "{}", different.len());
        assert!(different.iter().all(|input| input.len() <= MAX_BYTES));
    }
}
