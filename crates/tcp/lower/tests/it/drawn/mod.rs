//! Random einsums with shapes and tactics, as text, for the tests that run them.
//!
//! What is drawn: one to four axes a tensor, batch axes, windows with factors and positions before the start,
//! moved by loops in time and over slices, axes of run-time size; tactics of two and of four sections;
//! stationary operands in register files, halves of them, or data memory with a shape of their own.

#![allow(dead_code, reason = "each test uses a part")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

pub(crate) mod groups;
mod tactic;

use tilewright_notation::syntax::ast::Operand;

/// Numbers from a seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        usize::try_from(tilewright_base::random::next(&mut self.0) % sides as u64).unwrap()
    }

    /// True once in so many times.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.roll(times) == 0
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.roll(last + 1));
        }
    }
}

/// Most multiplications of a drawn einsum.
const MOST_STEPS: u64 = 6_000;
/// Most slices that are drawn.
const MOST_SLICES: u64 = 8;

/// A digit of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    axis: char,
    stride: u64,
    size: u64,
    slots: u64,
    padded: bool,
}

impl Piece {
    fn text(&self) -> String {
        let pad = if self.padded { format!("#{}", self.slots) } else { String::new() };
        format!("{}^{{{}}}[{}{pad}]", self.axis, self.stride, self.size)
    }

    /// The same in a power of two of places.
    fn in_power(&self) -> Piece {
        let slots = self.slots.next_power_of_two();
        Piece { slots, padded: self.padded || slots > self.size, ..*self }
    }
}

fn words(pieces: &[Piece]) -> String {
    pieces.iter().map(Piece::text).collect::<Vec<_>>().join(" ")
}

/// An axis of the einsum.
#[derive(Clone, Copy, Debug)]
struct Axis {
    name: char,
    extent: u64,
    /// Tensors whose elements depend on it.
    of: [bool; 3],
    dynamic: bool,
}

/// A stored axis `y` of an input, moved by two loops.
#[derive(Clone, Copy, Debug)]
struct Window {
    operand: Operand,
    loops: [(u64, char); 2],
    before: u64,
    extent: u64,
    /// The size table has it.
    given: bool,
}

#[derive(Debug)]
struct Drawn {
    axes: Vec<Axis>,
    window: Option<Window>,
    pieces: Vec<Piece>,
    parallel: Vec<Piece>,
}

impl Drawn {
    fn depends(&self, operand: Operand, axis: char) -> bool {
        self.axes.iter().any(|known| known.name == axis && known.of[operand as usize])
    }

    fn slides(&self, operand: Operand, axis: char) -> bool {
        self.window.is_some_and(|window| window.operand == operand && window.moves(axis))
    }

    /// The axes of a tensor as the einsum writes them.
    fn tensor(&self, operand: Operand) -> String {
        let plain = self.axes.iter().filter(|axis| axis.of[operand as usize]);
        let mut text: String =
            plain.filter(|axis| !self.slides(operand, axis.name)).map(|axis| axis.name).collect();
        if let Some(window) = self.window.filter(|window| window.operand == operand) {
            let [(a, x), (b, r)] = window.loops;
            let before = if window.before > 0 { format!("-{}", window.before) } else { String::new() };
            text.insert_str(0, &format!("(y={a}{x}+{b}{r}{before})"));
        }
        text
    }

    fn dims(&self) -> String {
        let size = |axis: &Axis| {
            let range = if axis.dynamic { "1.." } else { "" };
            format!("{}={range}{}", axis.name, axis.extent)
        };
        let mut dims: Vec<String> = self.axes.iter().map(size).collect();
        if let Some(window) = self.window.filter(|window| window.given) {
            dims.push(format!("y={}", window.extent));
        }
        dims.join(", ")
    }
}

impl Window {
    fn moves(&self, axis: char) -> bool {
        self.loops.iter().any(|(_, name)| *name == axis)
    }
}

/// Axes with random membership and sizes, cut into digits, some of them over slices.
fn draw(dice: &mut Dice) -> Drawn {
    let mut axes = draw_axes(dice);
    if dice.once_in(4) {
        let which = dice.roll(axes.len());
        axes[which].dynamic = true;
    }
    let window = if dice.once_in(3) { draw_window(dice, &axes) } else { None };
    let mut drawn = Drawn { axes, window, pieces: Vec::new(), parallel: Vec::new() };
    let mut slices = 1;
    for axis in drawn.axes.clone() {
        for piece in cut(dice, axis.name, axis.extent) {
            let over_slices = slices * piece.slots.next_power_of_two() <= MOST_SLICES && dice.once_in(4);
            if over_slices {
                let piece = piece.in_power();
                slices *= piece.slots;
                drawn.parallel.push(piece);
            } else {
                drawn.pieces.push(piece);
            }
        }
    }
    dice.shuffle(&mut drawn.pieces);
    dice.shuffle(&mut drawn.parallel);
    drawn
}

fn draw_axes(dice: &mut Dice) -> Vec<Axis> {
    let kinds = [("kj", [true, true, false]), ("mi", [true, false, true]), ("nh", [false, true, true])];
    let mut axes = Vec::new();
    for (names, of) in kinds {
        for (index, name) in names.chars().enumerate() {
            if index == 0 || dice.once_in(3) {
                axes.push((name, of));
            }
        }
    }
    if dice.once_in(3) {
        axes.push(('b', [true, true, true]));
    }
    let large = dice.roll(2 * axes.len());
    let mut axes: Vec<Axis> = axes
        .into_iter()
        .enumerate()
        .map(|(index, (name, of))| {
            let most = if index == large { 40 } else { 13 };
            Axis { name, extent: 1 + dice.roll(most) as u64, of, dynamic: false }
        })
        .collect();
    while axes.iter().map(|axis| axis.extent).product::<u64>() > MOST_STEPS {
        let which = dice.roll(axes.len());
        axes[which].extent = axes[which].extent.div_ceil(2);
    }
    axes
}

/// Two loops of an input that move a window over it.
fn draw_window(dice: &mut Dice, axes: &[Axis]) -> Option<Window> {
    let operand = if dice.once_in(4) { Operand::In1 } else { Operand::In0 };
    let mut moving: Vec<Axis> = axes.iter().copied().filter(|axis| axis.of[operand as usize]).collect();
    dice.shuffle(&mut moving);
    let [x, r] = [*moving.first()?, *moving.get(1)?];
    let factors =
        if dice.once_in(4) { [r.extent, 1] } else { [1 + dice.roll(3) as u64, 1 + dice.roll(2) as u64] };
    let reach = factors[0] * (x.extent - 1) + factors[1] * (r.extent - 1) + 1;
    let before = if dice.once_in(3) { dice.roll(usize::try_from(reach).unwrap().min(4)) as u64 } else { 0 };
    let given = dice.once_in(3);
    let whole = reach - before;
    let extent = if given { 1 + dice.roll(usize::try_from(whole + 3).unwrap()) as u64 } else { whole };
    Some(Window { operand, loops: [(factors[0], x.name), (factors[1], r.name)], before, extent, given })
}

/// The digits of an axis, innermost first.
fn cut(dice: &mut Dice, axis: char, extent: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut stride = 1;
    while stride < extent {
        let rest = extent.div_ceil(stride);
        let size = if dice.once_in(2) { rest } else { (2 + dice.roll(4) as u64).min(rest) };
        pieces.push(Piece { axis, stride, size, slots: size, padded: stride * size > extent });
        stride *= size;
    }
    pieces
}

/// A shape of one tensor: aligned slice digits, and for the others copies, idle slices, or a digit of its
/// own.
fn shape(dice: &mut Dice, drawn: &Drawn, operand: Operand, moves: bool, innermost: Option<Piece>) -> String {
    let mut inside = stored(dice, drawn, operand);
    dice.shuffle(&mut inside);
    // The fetched packet must lie side by side: what the tactic runs innermost is stored innermost.
    if let Some(last) = innermost {
        let name = if drawn.slides(operand, last.axis) { 'y' } else { last.axis };
        inside.sort_by_key(|piece| piece.axis == name && piece.stride <= last.stride);
    }
    let mut inter = Vec::new();
    for digit in &drawn.parallel {
        let slots = digit.slots;
        let own = inside.iter().position(|piece| piece.slots == slots && piece.axis != 'y');
        inter.push(match own {
            _ if drawn.depends(operand, digit.axis) && !drawn.slides(operand, digit.axis) => digit.text(),
            Some(index) if moves && dice.once_in(2) => inside.remove(index).text(),
            _ if moves && dice.once_in(2) => format!("_[1#{slots}]"),
            _ => format!("_[{slots}]"),
        });
    }
    format!("{} | {}", inter.join(" "), words(&inside))
}

/// The digits of a tensor within slices: those of the tactic, or for some axes others.
fn stored(dice: &mut Dice, drawn: &Drawn, operand: Operand) -> Vec<Piece> {
    let plain = |axis: &&Axis| axis.of[operand as usize] && !drawn.slides(operand, axis.name);
    let mut inside = Vec::new();
    for axis in drawn.axes.iter().filter(plain) {
        let of_axis = |piece: &&Piece| piece.axis == axis.name;
        let own_cut = !drawn.parallel.iter().any(|piece| piece.axis == axis.name) && dice.once_in(6);
        if own_cut {
            inside.extend(cut(dice, axis.name, axis.extent));
        } else {
            inside.extend(drawn.pieces.iter().filter(of_axis));
        }
    }
    if let Some(window) = drawn.window.filter(|window| window.operand == operand) {
        let whole = Piece { axis: 'y', stride: 1, size: window.extent, slots: window.extent, padded: false };
        match window.loops {
            // Digits that meet where a loop's steps begin carry nothing.
            [(factor, _), (1, _)] if factor > 1 && window.extent > factor && dice.once_in(2) => {
                let size = window.extent.div_ceil(factor);
                let padded = size * factor > window.extent;
                inside.push(Piece { stride: factor, size, slots: size, padded, ..whole });
                inside.push(Piece { size: factor, slots: factor, ..whole });
            }
            _ if window.extent > 1 => inside.push(whole),
            _ => {}
        }
    }
    inside
}

/// One program: einsum, dims, shapes and tactic.
pub(crate) fn program(dice: &mut Dice) -> String {
    let mut drawn = draw(dice);
    let (stream, held) =
        if dice.once_in(3) { (Operand::In1, Operand::In0) } else { (Operand::In0, Operand::In1) };
    let (tactic, innermost) = tactic::draw(dice, &mut drawn, stream, held);
    let place = ["@trf", "@trf/2", "@dm", "@dm"][dice.roll(4)];
    let of_stream = shape(dice, &drawn, stream, true, innermost);
    let of_held = shape(dice, &drawn, held, place == "@dm", None);
    let of_out = shape(dice, &drawn, Operand::Out, true, None);
    let [in0, in1, out] = Operand::ALL.map(|operand| drawn.tensor(operand));
    format!(
        "{in0}, {in1} -> {out}; dims {}; stationary = {}; {} = @dm {of_stream}; {} = {place} {of_held}; out \
         = {of_out}; \
         tactic = {tactic}",
        drawn.dims(),
        held.name(),
        stream.name(),
        held.name(),
    )
}
