//! Kernels to command programs of the TCP (paper section V-C, stages 3 to 5).
//!
//! | file | owns |
//! |---|---|
//! | [`sizes`] | how widths are dealt out over slices and register files |
//! | [`mixed`] | types of numbers by name |
//! | [`plan`] | what all programs of a model share: places in HBM |
//! | [`choices`] | what templates leave open, and the rule |
//! | [`bands`] | parts of the slices with tokens of their own |
//! | [`build`] | one program: kernels in order |
//! | `registers`, `queue_state` | what a run is told; what a queue has done so far |
//! | [`place`] | places in data memory |
//! | [`emit`] | commands in order, with the waits that they need |
//! | [`window`] | the order of a few commands, by integer programming |
//! | [`image`] | parts of register images |
//! | [`constants`] | gains and scales that slices keep |
//! | `rows` | rows as integers |
//! | `norm`, `layer_norm`, `pool`, `project`, `rotate`, `heads`, `attend_rows`, `attend_keys`, `activate`, `combine`, `ends` | a kernel each |
//! | `fills` | weights on their way to the register files |
//! | `cache` | keys and values to HBM and back |
//! | `teams` | how slices share the heads of a prompt |
//! | `exchange`, `peers` | sums and tokens between processing elements, and between chips |
//! | `held` | what memories hold before a run, as tensors of the program |
//! | [`pack`] | weights as bytes in HBM |

mod activate;
mod attend_keys;
mod attend_rows;
pub mod bands;
pub mod build;
mod cache;
pub mod choices;
mod combine;
pub mod constants;
pub mod emit;
mod ends;
mod exchange;
mod fills;
mod heads;
mod held;
pub mod image;
mod layer_norm;
pub mod mixed;
mod norm;
pub mod pack;
mod peers;
pub mod place;
pub mod plan;
mod pool;
mod project;
mod queue_state;
pub(crate) mod registers;
mod rotate;
mod rows;
pub mod sizes;
mod teams;
pub mod window;
