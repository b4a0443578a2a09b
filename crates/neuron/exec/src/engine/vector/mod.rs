//! Vector engine: element-wise instructions, reductions, scans, statistics, selections and searches
//! (NKI architecture guide, vector engine; docs/hardware-rules.md#vector-engine and #vector-instructions).

mod dynamic;
mod elementwise;
mod exponential;
mod reduce;
mod search;
mod select;

pub use dynamic::tensor_copy_dynamic;
pub(crate) use elementwise::apply_steps;
pub use elementwise::{
    fill, memset, nc_stream_shuffle, reciprocal, scalar_tensor_tensor, tensor_copy, tensor_scalar,
    tensor_tensor, transpose,
};
pub use exponential::exponential;
pub use reduce::{
    Accumulate, bn_aggr, bn_stats, tensor_reduce, tensor_scalar_cumulative, tensor_scalar_reduce,
    tensor_tensor_scan,
};
pub use search::{max8, nc_find_index8, nc_match_replace8};
pub use select::{
    ColumnBound, check_predicate, dropout, largest_only, range_select, select_reduce, tensor_copy_predicated,
    uniform,
};
