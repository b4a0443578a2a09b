//! Tactics over drawn digits: of two sections, or with lanes and packet stated.

use tilewright_notation::syntax::ast::Operand;

use super::{Dice, Drawn, Piece, words};

/// Most lanes, and most elements of a packet that are drawn.
const LANES: u64 = 8;
const PACKET: u64 = 32;

/// A tactic as text, and the digit that it runs innermost of those that the stream has.
pub(super) fn draw(
    dice: &mut Dice,
    drawn: &mut Drawn,
    stream: Operand,
    held: Operand,
) -> (String, Option<Piece>) {
    let (parallel, mut time) = (words(&drawn.parallel), drawn.pieces.clone());
    if !dice.once_in(3) {
        let innermost = time.iter().rev().find(|piece| drawn.depends(stream, piece.axis)).copied();
        return (format!("{parallel} | {}", words(&time)), innermost);
    }
    let survives = |piece: &Piece| drawn.depends(Operand::Out, piece.axis);
    let only_held = |piece: &Piece| {
        survives(piece) && drawn.depends(held, piece.axis) && !drawn.depends(stream, piece.axis)
    };
    let lanes = take(dice, &mut time, 2, LANES, only_held, true);
    let tree = |piece: &Piece| drawn.depends(stream, piece.axis) && !survives(piece);
    let summed = take(dice, &mut time, 2, PACKET, tree, true);
    let room = PACKET / summed.iter().map(|piece| piece.slots).product::<u64>();
    let column = |piece: &Piece| drawn.depends(stream, piece.axis) && survives(piece);
    let mut packet = take(dice, &mut time, 1, room, column, false);
    packet.extend(summed);
    let fetched = packet.last().copied();
    let innermost =
        fetched.or_else(|| time.iter().rev().find(|piece| drawn.depends(stream, piece.axis)).copied());
    (format!("{parallel} | {} | {} | {}", words(&time), words(&lanes), words(&packet)), innermost)
}

/// Moves up to so many digits out of time, as long as their places fit.
fn take(
    dice: &mut Dice,
    time: &mut Vec<Piece>,
    most: usize,
    mut room: u64,
    fits: impl Fn(&Piece) -> bool,
    in_powers: bool,
) -> Vec<Piece> {
    let mut taken = Vec::new();
    for _ in 0..dice.roll(most + 1) {
        let places = |piece: &Piece| if in_powers { piece.in_power() } else { *piece };
        let found = time.iter().position(|piece| fits(piece) && places(piece).slots <= room);
        let Some(index) = found else { break };
        let piece = places(&time.remove(index));
        room /= piece.slots;
        taken.push(piece);
    }
    taken
}
