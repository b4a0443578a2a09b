//! Subscripts on axes of drawn einsums: parts for groups of PEs.

use super::{Dice, program};

/// An axis that is split: so many parts of the whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) name: char,
    pub(crate) count: u64,
    pub(crate) whole: u64,
}

/// A drawn einsum with subscripts on some of its axes, the einsum alone, and the split axes: surviving ones,
/// then summed ones.
pub(crate) fn split(dice: &mut Dice) -> Option<(String, String, Vec<Part>)> {
    let text = program(dice);
    let (einsum, rest) = text.split_once("; dims ")?;
    let (dims, shapes) = rest.split_once(';')?;
    let inside =
        |name: char| einsum.split('(').skip(1).any(|part| part.split(')').next().unwrap().contains(name));
    let mut parts: Vec<Part> = Vec::new();
    let mut sizes: Vec<String> = Vec::new();
    for size in dims.split(", ") {
        let (name, extent) = size.split_once('=')?;
        let name = name.chars().next()?;
        let groups: u64 = parts.iter().map(|part| part.count).product();
        let wanted = [2, 2, 3, 4][dice.roll(4)];
        let takes = dice.once_in(2) && !inside(name) && name != 'y';
        if takes && groups * wanted <= 8 {
            let (least, most) = extent.split_once("..").map_or(("", extent), |(_, most)| ("1..", most));
            let whole = most.parse::<u64>().ok()? * wanted;
            parts.push(Part { name, count: wanted, whole });
            sizes.push(format!("{name}={least}{whole}"));
        } else {
            sizes.push(size.to_string());
        }
    }
    if parts.is_empty() {
        return None;
    }
    let mut written = String::new();
    for letter in einsum.chars() {
        written.push(letter);
        if let Some(part) = parts.iter().find(|part| part.name == letter) {
            written.push_str(&format!("_{}", part.count));
        }
    }
    let sizes = sizes.join(", ");
    let shapes = gathered(dice, &mut written, shapes, &parts);
    let shapes = &copied(dice, &mut written, &shapes, &parts);
    let out = einsum.split("->").nth(1)?;
    parts.sort_by_key(|part| (!out.contains(part.name), einsum.find(part.name)));
    Some((format!("{written}; dims {sizes};{shapes}"), format!("{einsum}; dims {sizes}"), parts))
}

/// Sometimes takes the subscript off an axis of the output, whose shape then has one more digit for the
/// parts.
fn gathered(dice: &mut Dice, written: &mut String, shapes: &str, parts: &[Part]) -> String {
    let out = written.rfind("->").unwrap_or(0);
    let Part { name, count, whole } = parts[dice.roll(parts.len())];
    let subscript = format!("{name}_{count}");
    let (Some(at), Some(shape)) = (written[out..].find(&subscript), shapes.find("out = ")) else {
        return shapes.to_string();
    };
    let Some(bar) = shapes[shape..].find("| ").filter(|_| dice.once_in(2)) else { return shapes.to_string() };
    written.replace_range(out + at..out + at + subscript.len(), &name.to_string());
    let mut shapes = shapes.to_string();
    shapes.insert_str(shape + bar + 2, &format!("{name}^{{{}}}[{count}] ", whole / count));
    shapes
}

/// Sometimes takes the subscript off an axis of one input where the other has it too; its shape has one more
/// digit for the parts.
fn copied(dice: &mut Dice, written: &mut String, shapes: &str, parts: &[Part]) -> String {
    let Part { name, count, whole } = parts[dice.roll(parts.len())];
    let subscript = format!("{name}_{count}");
    let (comma, arrow) = (written.find(',').unwrap_or(0), written.find("->").unwrap_or(0));
    let (first, second) = (written[..comma].find(&subscript), written[comma..arrow].find(&subscript));
    let (Some(first), Some(second)) = (first, second) else { return shapes.to_string() };
    let (at, key) = if dice.once_in(2) { (first, "in0 = ") } else { (comma + second, "in1 = ") };
    let Some(shape) = shapes.find(key).filter(|_| dice.once_in(2)) else { return shapes.to_string() };
    let Some(bar) = shapes[shape..].find("| ") else { return shapes.to_string() };
    written.replace_range(at..at + subscript.len(), &name.to_string());
    let mut shapes = shapes.to_string();
    shapes.insert_str(shape + bar + 2, &format!("{name}^{{{}}}[{count}] ", whole / count));
    shapes
}
