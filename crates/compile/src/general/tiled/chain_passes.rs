//! Passes of an epilogue's first chain, each made once: they depend on what every slice has and on where
//! operands lie in the register file, which most tiles of a search have in common.

use std::collections::BTreeMap;
use std::sync::Arc;

use tilewright_machine::tcp::Tcp;

use super::super::passes::{Pass, Registers, operands_of_units, passes_with};
use super::epilogue::{Epilogue, Input};

/// What operands of the register file depend on: rows and columns of each slice, the first byte that is free,
/// and which of them take room.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RegisterKey {
    /// Rows of each slice.
    pub(super) rows: u64,
    /// Columns of each slice.
    pub(super) columns: u64,
    /// Slices whose blocks of rows pass in turn.
    pub(super) turns: u64,
    /// First byte of the register file that is free.
    pub(super) from: u64,
    /// Whether each small operand takes room.
    pub(super) used: Vec<bool>,
}

/// Passes of the first chain of one epilogue on one machine.
#[derive(Debug, Default)]
pub(super) struct ChainPasses {
    /// Inputs of one element for each row or column; none inside if units cannot take all of them.
    small: Option<Option<Vec<usize>>>,
    known: BTreeMap<RegisterKey, Option<Arc<[Pass]>>>,
}

impl ChainPasses {
    /// Inputs that the register file holds; `None` if units cannot take all of them from there.
    pub(super) fn small(&mut self, epilogue: &Epilogue) -> Option<Vec<usize>> {
        let find = || {
            let is_small = |at: &usize| is_small(epilogue.inputs[*at]);
            let small: Vec<usize> = (0..epilogue.inputs.len()).filter(is_small).collect();
            let fit = operands_of_units(&small, &epilogue.lines, &epilogue.streams);
            (fit.len() == small.len()).then_some(small)
        };
        self.small.get_or_insert_with(find).clone()
    }

    /// The passes with operands that a key says all of; `None` if a step has no unit.
    pub(super) fn passes(
        &mut self,
        machine: &Tcp,
        epilogue: &Epilogue,
        key: RegisterKey,
        registers: &Registers,
    ) -> Option<Arc<[Pass]>> {
        let inputs = epilogue.inputs.len();
        let make =
            || passes_with(machine, inputs, &epilogue.lines, &epilogue.streams, registers).map(Arc::from);
        self.known.entry(key).or_insert_with(make).clone()
    }
}

/// Whether an input is one element for each row or for each column.
pub(super) fn is_small(input: Input) -> bool {
    matches!(input, Input::Columns | Input::Rows)
}
