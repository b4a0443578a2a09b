//! Names of all instructions that a program can record: those of `nki.isa`, and what transfers and
//! collectives add.

/// Every opcode, in alphabetical order.
pub const OPCODES: &[&str] = &[
    "activate2",
    "activation",
    "activation_reduce",
    "affine_select",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "bn_aggr",
    "bn_stats",
    "collective_permute",
    "dma_compute",
    "dma_copy",
    "dma_descriptors",
    "dma_transpose",
    "dropout",
    "exponential",
    "iota",
    "local_gather",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_matmul_mx",
    "nc_n_gather",
    "nc_stream_shuffle",
    "nc_transpose",
    "nonzero_with_count",
    "partition_broadcast",
    "quantize_mx",
    "rand2",
    "rand_get_state",
    "rand_set_state",
    "range_select",
    "reciprocal",
    "reduce_scatter",
    "register_load",
    "rng",
    "scalar_tensor_tensor",
    "select_reduce",
    "sendrecv",
    "sequence_bounds",
    "set_rng_seed",
    "tensor_copy",
    "tensor_copy_dynamic_dst",
    "tensor_copy_dynamic_src",
    "tensor_copy_predicated",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "topk",
];

/// The opcode of that name.
pub fn opcode(name: &str) -> Option<&'static str> {
    OPCODES.binary_search(&name).ok().and_then(|at| OPCODES.get(at).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_again() {
        assert!(OPCODES.is_sorted());
        assert!(OPCODES.iter().all(|name| opcode(name) == Some(name)));
        assert_eq!(opcode("nc_matmu"), None);
    }
}
