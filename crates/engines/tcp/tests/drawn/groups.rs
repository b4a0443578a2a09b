//! Subscripts on axes of drawn einsums: parts for groups of PEs.

use super::{Dice, program};

/// A drawn einsum with subscripts on some of its axes, the einsum alone, and the split axes: surviving ones, then summed ones.
pub(crate) fn split(dice: &mut Dice) -> Option<(String, String, Vec<(char, u64)>)> {
    let text = program(dice);
    let (einsum, rest) = text.split_once("; dims ")?;
    let (dims, shapes) = rest.split_once(';')?;
    let inside =
        |name: char| einsum.split('(').skip(1).any(|part| part.split(')').next().unwrap().contains(name));
    let mut parts: Vec<(char, u64)> = Vec::new();
    let mut sizes: Vec<String> = Vec::new();
    for size in dims.split(", ") {
        let (name, extent) = size.split_once('=')?;
        let name = name.chars().next()?;
        let groups: u64 = parts.iter().map(|(_, parts)| parts).product();
        let wanted = [2, 2, 3, 4][dice.roll(4)];
        let takes = dice.once_in(2) && !inside(name) && !extent.contains("..") && name != 'y';
        if takes && groups * wanted <= 8 {
            parts.push((name, wanted));
            sizes.push(format!("{name}={}", extent.parse::<u64>().ok()? * wanted));
        } else {
            sizes.push(size.to_string());
        }
    }
    if parts.is_empty() || dims.contains("..") {
        return None;
    }
    let mut written = String::new();
    for letter in einsum.chars() {
        written.push(letter);
        if let Some((_, parts)) = parts.iter().find(|(name, _)| *name == letter) {
            written.push_str(&format!("_{parts}"));
        }
    }
    let sizes = sizes.join(", ");
    let out = einsum.split("->").nth(1)?;
    parts.sort_by_key(|(name, _)| (!out.contains(*name), einsum.find(*name)));
    Some((format!("{written}; dims {sizes};{shapes}"), format!("{einsum}; dims {sizes}"), parts))
}
