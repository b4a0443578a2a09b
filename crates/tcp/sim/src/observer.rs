//! Observers of a run: the computation of values and the checker of findings plug in here.

use std::ops::ControlFlow;

use tilewright_num::Dtype;
use tilewright_tcp_isa::program::event::RunEvent;
use tilewright_tcp_isa::program::transfer::Address;

/// Receives the events of a run in the order in which they happen. A command's values are those of its end.
pub trait Observer {
    /// Something happened; breaking ends the run with [`crate::RunEnd::Stopped`].
    fn observe(&mut self, event: &RunEvent<'_>) -> ControlFlow<()>;

    /// What a control core reads from a memory; `None` if values are not computed or cannot be read there.
    fn read(&mut self, address: Address, dtype: Dtype) -> Option<i64>;
}

/// An observer that ignores all events and computes no values.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn observe(&mut self, _event: &RunEvent<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn read(&mut self, _address: Address, _dtype: Dtype) -> Option<i64> {
        None
    }
}
