//! How much an evaluation may hold: in proportion to what it was given, so that a file of a few bytes takes
//! little memory, whatever sizes it names.

use tilewright_graph::ValueId;

use crate::error::EvalError;
use crate::tensor::Tensor;

/// Elements that any evaluation may hold.
const ANY_ELEMENTS: u64 = 1 << 26;
/// Elements that may be held for each that was given.
const PER_GIVEN: u64 = 16;

/// Elements of computed values that are held, and how many may be.
#[derive(Clone, Debug)]
pub(crate) struct ElementBudget {
    most: u64,
    held: u64,
    by_value: Vec<u64>,
}

impl ElementBudget {
    /// A budget for so many values, in proportion to those that are there.
    pub(crate) fn of(given: &[Option<Tensor>]) -> ElementBudget {
        let elements = given.iter().flatten().map(|tensor| tensor.len() as u64).fold(0, u64::saturating_add);
        let most = ANY_ELEMENTS.saturating_add(elements.saturating_mul(PER_GIVEN));
        ElementBudget { most, held: 0, by_value: vec![0; given.len()] }
    }

    /// A value of so many elements is about to be computed.
    pub(crate) fn take(&mut self, id: ValueId, elements: usize) -> Result<(), EvalError> {
        let held = self.held.saturating_add(elements as u64);
        if held > self.most {
            return Err(EvalError::Held { held, most: self.most });
        }
        if let Some(own) = self.by_value.get_mut(id.index()) {
            self.held = held;
            *own = own.saturating_add(elements as u64);
        }
        Ok(())
    }

    /// A value is not held any more.
    pub(crate) fn give_back(&mut self, id: ValueId) {
        if let Some(own) = self.by_value.get_mut(id.index()) {
            self.held = self.held.saturating_sub(std::mem::take(own));
        }
    }
}
