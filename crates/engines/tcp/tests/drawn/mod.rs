//! Random einsums with shapes and tactics, as text, for the tests that run them.

#![allow(dead_code, reason = "each test uses a part")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use tilewright_notation::syntax::ast::Operand;

/// Numbers from a seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % sides as u64).unwrap()
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.roll(last + 1));
        }
    }
}

/// A digit of an axis: its text, and what the generator must know.
#[derive(Clone, Debug)]
struct Piece {
    axis: char,
    text: String,
    slots: u64,
}

#[derive(Debug)]
struct Drawn {
    axes: Vec<(char, u64, [bool; 3])>,
    pieces: Vec<Piece>,
    parallel: Vec<Piece>,
}

/// Axes with random membership and sizes, cut into digits, some of them over slices.
fn draw(dice: &mut Dice) -> Drawn {
    let kinds = [
        [true, true, false],
        [true, false, true],
        [false, true, true],
        [true, true, true],
        [true, true, false],
    ];
    let mut axes = Vec::new();
    for (name, kind) in "kmnbj".chars().zip(kinds) {
        if name == 'k' || name == 'm' || name == 'n' || dice.roll(3) == 0 {
            axes.push((name, 1 + dice.roll(13) as u64, kind));
        }
    }
    let mut drawn = Drawn { axes, pieces: Vec::new(), parallel: Vec::new() };
    let mut slices = 1;
    for (name, extent, _) in drawn.axes.clone() {
        cut(dice, &mut drawn, &mut slices, name, extent);
    }
    dice.shuffle(&mut drawn.pieces);
    dice.shuffle(&mut drawn.parallel);
    drawn
}

fn cut(dice: &mut Dice, drawn: &mut Drawn, slices: &mut u64, name: char, extent: u64) {
    let mut stride = 1;
    while stride < extent {
        let rest = extent.div_ceil(stride);
        let size = if dice.roll(2) == 0 { rest } else { (2 + dice.roll(4) as u64).min(rest) };
        let over_slices = *slices * size.next_power_of_two() <= 8 && dice.roll(4) == 0;
        let slots = if over_slices { size.next_power_of_two() } else { size };
        let padded = stride * size > extent || slots > size;
        let pad = if padded { format!("#{slots}") } else { String::new() };
        let piece = Piece { axis: name, text: format!("{name}^{{{stride}}}[{size}{pad}]"), slots };
        stride *= size;
        if over_slices {
            *slices *= slots;
            drawn.parallel.push(piece);
        } else {
            drawn.pieces.push(piece);
        }
    }
}

/// A shape of one tensor: aligned slice digits, and for the others copies, idle slices, or a digit of its own.
fn shape(dice: &mut Dice, drawn: &Drawn, operand: Operand, streamed: Operand) -> String {
    let moves = operand == streamed || operand == Operand::Out;
    let has = |axis: char| drawn.axes.iter().any(|(name, _, kind)| *name == axis && kind[operand as usize]);
    let mut inside: Vec<Piece> = drawn.pieces.iter().filter(|piece| has(piece.axis)).cloned().collect();
    dice.shuffle(&mut inside);
    // The fetched packet must lie side by side: what the tactic runs innermost is stored innermost.
    let innermost = drawn.pieces.iter().rev().find(|piece| has(piece.axis)).map(|piece| piece.text.clone());
    if operand == streamed {
        inside.sort_by_key(|piece| Some(&piece.text) == innermost.as_ref());
    }
    let mut inter = Vec::new();
    for digit in &drawn.parallel {
        let slots = digit.slots;
        let own = inside.iter().position(|piece| piece.slots == slots);
        inter.push(match own {
            _ if has(digit.axis) => digit.text.clone(),
            Some(index) if moves && dice.roll(2) == 0 => inside.remove(index).text,
            _ if moves && dice.roll(2) == 0 => format!("_[1#{slots}]"),
            _ => format!("_[{slots}]"),
        });
    }
    let inside: Vec<String> = inside.into_iter().map(|piece| piece.text).collect();
    format!("{} | {}", inter.join(" "), inside.join(" "))
}

/// One program: einsum, dims, shapes and tactic.
pub(crate) fn program(dice: &mut Dice) -> String {
    let drawn = draw(dice);
    let tensor = |operand: Operand| -> String {
        drawn.axes.iter().filter(|(_, _, kind)| kind[operand as usize]).map(|(name, _, _)| *name).collect()
    };
    let dims: Vec<String> = drawn.axes.iter().map(|(name, extent, _)| format!("{name}={extent}")).collect();
    let swapped = dice.roll(3) == 0;
    let (streamed, stationary) = if swapped { ("in1", "in0") } else { ("in0", "in1") };
    let stream = if swapped { Operand::In1 } else { Operand::In0 };
    let held = if swapped { Operand::In0 } else { Operand::In1 };
    let words =
        |pieces: &[Piece]| pieces.iter().map(|piece| piece.text.clone()).collect::<Vec<_>>().join(" ");
    format!(
        "{}, {} -> {}; dims {}; stationary = {stationary}; {streamed} = @dm {}; {stationary} = @trf {}; out = {}; \
         tactic = {} | {}",
        tensor(Operand::In0),
        tensor(Operand::In1),
        tensor(Operand::Out),
        dims.join(", "),
        shape(dice, &drawn, stream, stream),
        shape(dice, &drawn, held, stream),
        shape(dice, &drawn, Operand::Out, stream),
        words(&drawn.parallel),
        words(&drawn.pieces),
    )
}
