//! How a main command slows the sub command beside it through the banks of data memory (vISA book, data memory: main fetch and
//! commit come before sub fetch and commit).

use tilewright_machine::tcp::Tcp;
use tilewright_tcp::program::Exec;

/// Full speed.
pub(crate) const FULL_Q32: u64 = 1 << 32;

/// The speed of a sub command while a main command runs, as a part of 2^32.
///
/// The bank model plugs in here; until it does, both run at full speed, which is the best case.
pub(crate) fn sub_speed_q32(_machine: &Tcp, _sub: &Exec, _main: Option<&Exec>) -> u64 {
    FULL_Q32
}
