//! What a program declares: chips, registers, tensors (paper sections III-D, V-A).

use tilewright_base::{Diagnostic, Span};
use tilewright_machine::tcp::Tcp;

use super::context::refusal;
use crate::footprint::MemoryAccess;
use crate::footprint::tensor::whole;
use crate::program::Program;
use crate::program::tensor::{Tensor, TensorData, TensorPlace, TensorRole};
use crate::program::transfer::MOST_CHIPS;

/// Pairs of tensors that are compared at most, whatever a file says.
const MOST_PAIRS: usize = 1 << 22;

pub(super) fn check(machine: &Tcp, program: &Program, found: &mut Vec<Diagnostic>) {
    if program.chips == 0 || program.chips > MOST_CHIPS {
        found.push(refusal(
            "tcp/program-chips",
            program.queues.first().map_or(Span::default(), |queue| queue.span),
            format!("{} chips", program.chips),
            format!("1 to {MOST_CHIPS}: as many as an address can name"),
            "1",
        ));
    }
    for register in &program.registers {
        if register.least > register.most || !(register.least..=register.most).contains(&register.initial) {
            found.push(refusal(
                "tcp/register-range",
                register.span,
                format!(
                    "register `{}` starts at {} in {}..={}",
                    register.name, register.initial, register.least, register.most
                ),
                "least <= initial <= most".into(),
                "an initial value inside the range",
            ));
        }
    }
    for tensor in &program.tensors {
        let chip = match tensor.place {
            TensorPlace::Hbm { chip, .. } | TensorPlace::Dm { chip, .. } => chip,
        };
        let box_of = whole(machine, tensor);
        let live = tensor.axes.iter().all(|(_, extent)| *extent > 0)
            && tensor.map.from.iter().all(|extent| *extent > 0);
        if chip >= program.chips || box_of.is_none() || !live {
            found.push(refusal(
                "tcp/tensor-place",
                tensor.span,
                format!("tensor `{}` does not lie in a memory of the machine", tensor.name),
                format!(
                    "{} chips, {} slices of {} B each, {} B of HBM",
                    program.chips,
                    machine.slices(),
                    machine.dm.capacity_bytes,
                    machine.hbm_capacity_bytes()
                ),
                "more slices, or another base",
            ));
        }
    }
    check_overlaps(machine, program, found);
}

/// Data of two tensors at the same bytes: one of them is lost before the run begins.
fn check_overlaps(machine: &Tcp, program: &Program, found: &mut Vec<Diagnostic>) {
    let given = program
        .tensors
        .iter()
        .filter(|tensor| tensor.role != TensorRole::Output && tensor.data != TensorData::None);
    let mut boxes: Vec<(u64, &Tensor, MemoryAccess)> = given
        .filter_map(|tensor| {
            let access = whole(machine, tensor)?;
            let (start, _) = access.bytes.bounds()?;
            Some((start, tensor, access))
        })
        .collect();
    boxes.sort_by_key(|(start, ..)| *start);
    let mut left = MOST_PAIRS;
    for (index, (_, first, access)) in boxes.iter().enumerate() {
        let end = access.bytes.bounds().map_or(0, |(_, end)| end);
        let others = boxes.iter().skip(index + 1).take_while(|(start, ..)| *start < end).take(left);
        for (_, second, other) in others {
            left -= 1;
            if access.meets(other) {
                found.push(refusal(
                    "tcp/tensor-overlap",
                    second.span,
                    format!(
                        "tensors `{}` and `{}` share bytes, and both hold data at the start",
                        first.name, second.name
                    ),
                    "data of one tensor at each byte".into(),
                    "another base, or one tensor that is both",
                ));
                return;
            }
        }
    }
}
