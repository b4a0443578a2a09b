"""Every name that public kernels use, and every name of the documented interface, exists in its dialect; others are named."""

import functools
import importlib
import inspect
import pathlib

import pytest

OLD = """
    ncc.multi_buffer ncc.no_reorder ncc.psum.alloc ncc.psum.mod_alloc ncc.sbuf.alloc ncc.sbuf.mod_alloc
    nisa.activation nisa.activation_reduce nisa.affine_select nisa.bn_aggr nisa.bn_stats nisa.builtin_custom_op
    nisa.constants.dge_mode.hwdge nisa.constants.oob_mode.error nisa.constants.oob_mode.skip nisa.dge_mode.hwdge
    nisa.dge_mode.swdge nisa.dma_copy nisa.dma_transpose nisa.dropout nisa.engine.scalar nisa.engine.vector
    nisa.get_nc_version nisa.iota nisa.local_gather nisa.max8 nisa.memset nisa.nc_find_index8 nisa.nc_match_replace8
    nisa.nc_matmul nisa.nc_stream_shuffle nisa.nc_transpose nisa.nc_version.gen2 nisa.nc_version.gen3
    nisa.oob_mode.error nisa.oob_mode.skip nisa.range_select nisa.reciprocal nisa.reduce_cmd.load_reduce
    nisa.reduce_cmd.reduce nisa.reduce_cmd.reset_reduce nisa.scalar_tensor_tensor nisa.select_reduce
    nisa.sequence_bounds nisa.tensor_copy nisa.tensor_copy_dynamic_dst nisa.tensor_copy_dynamic_src
    nisa.tensor_copy_predicated nisa.tensor_engine nisa.tensor_partition_reduce nisa.tensor_reduce nisa.tensor_scalar
    nisa.tensor_scalar_cumulative nisa.tensor_scalar_reduce nisa.tensor_tensor nisa.tensor_tensor_scan
    nisa.unknown_engine nisa.vector_engine nki.jit nl.abs nl.add nl.affine_range nl.all nl.all_reduce nl.arange
    nl.arctan nl.atomic_rmw nl.bfloat16 nl.bfp16.min nl.bitwise_and nl.bitwise_or nl.bitwise_xor nl.broadcast_to
    nl.ceil nl.constants.sizeinbytes nl.copy nl.cos nl.device_print nl.divide nl.dropout nl.ds nl.empty_like nl.equal
    nl.erf nl.erf_dx nl.exp nl.expand_dims nl.finfo nl.float16 nl.float32 nl.float8_e4m3 nl.float8_e5m2 nl.floor
    nl.fmod nl.fp32.min nl.full nl.gather_flattened nl.gelu nl.gelu_apprx_sigmoid nl.gelu_apprx_tanh nl.gelu_dx
    nl.greater nl.greater_equal nl.hbm nl.int32 nl.int8 nl.invert nl.left_shift
    nl.less nl.less_equal nl.load nl.load_transpose2d nl.log nl.logical_and nl.logical_not nl.logical_or
    nl.logical_xor nl.loop_reduce nl.matmul nl.max nl.maximum nl.mean nl.mgrid nl.min nl.minimum nl.mish nl.mod
    nl.multiply nl.nc nl.ndarray nl.negative nl.not_equal nl.num_programs nl.ones nl.par_dim nl.power nl.private_hbm
    nl.prod nl.program_id nl.program_ndim nl.psum nl.rand nl.random_seed nl.reciprocal nl.relu nl.right_shift
    nl.rms_norm nl.rsqrt nl.sbuf nl.sequential_range nl.shared_constant nl.shared_hbm nl.shared_identity_matrix
    nl.sigmoid nl.sign nl.silu nl.silu_dx nl.sin nl.softmax nl.softplus nl.spmd_dim nl.sqrt nl.square nl.static_cast
    nl.static_range nl.store nl.subtract nl.sum nl.tan nl.tanh nl.tile_size.bn_stats_fmax
    nl.tile_size.gemm_moving_fmax nl.tile_size.gemm_stationary_fmax nl.tile_size.pmax nl.tile_size.psum_fmax
    nl.transpose nl.trunc nl.uint32 nl.uint8 nl.var nl.where nl.zeros nl.zeros_like nt.mutable_tensor nt.scalar
    nt.tensor nt.mutable nki.tensor nccl.all_gather nccl.all_reduce nccl.all_to_all nccl.collective_permute nccl.reduce_scatter
    nccl.collectives.collective_permute_implicit
""".split()

NEW = """
    ncoll.ReplicaGroup ncoll.all_gather ncoll.all_gather_v ncoll.all_reduce ncoll.all_to_all ncoll.all_to_all_v
    ncoll.collective_permute ncoll.collective_permute_implicit
    ncoll.collective_permute_implicit_current_processing_rank_id ncoll.collective_permute_implicit_reduce
    ncoll.rank_id ncoll.reduce_scatter nisa.activate2 nisa.activation nisa.activation_reduce nisa.affine_select
    nisa.bn_aggr nisa.bn_stats nisa.constants.dge_mode.hwdge nisa.constants.dge_mode.swdge
    nisa.constants.dge_mode.unknown nisa.constants.matmul_perf_mode.double_row nisa.constants.oob_mode.error
    nisa.constants.oob_mode.skip nisa.core_barrier nisa.dge_mode.hwdge nisa.dge_mode.none nisa.dge_mode.swdge
    nisa.dma_compute nisa.dma_copy nisa.dma_engine.dma nisa.dma_engine.gpsimd_dma nisa.dma_transpose nisa.dropout
    nisa.engine.gpsimd nisa.engine.scalar nisa.engine.vector nisa.exponential nisa.get_nc_sub_version
    nisa.get_nc_version nisa.gpsimd_engine nisa.iota nisa.local_gather nisa.matmul_perf_mode.double_row nisa.max8
    nisa.memset nisa.nc_find_index8 nisa.nc_match_replace8 nisa.nc_matmul nisa.nc_matmul_mx nisa.nc_n_gather
    nisa.nc_stream_shuffle nisa.nc_transpose nisa.nc_version.gen2 nisa.nc_version.gen3 nisa.nc_version.gen4
    nisa.nonzero_with_count nisa.oob_mode.error nisa.oob_mode.skip nisa.quantize_mx nisa.rand2 nisa.rand_get_state
    nisa.rand_set_state nisa.range_select nisa.reciprocal nisa.reduce_cmd.reset_reduce nisa.register_alloc
    nisa.register_load nisa.register_move nisa.register_store nisa.rng nisa.scalar_engine nisa.scalar_tensor_tensor
    nisa.select_reduce nisa.sendrecv nisa.sequence_bounds nisa.set_rng_seed nisa.tensor_copy
    nisa.tensor_copy_predicated nisa.tensor_partition_reduce nisa.tensor_reduce nisa.tensor_scalar
    nisa.tensor_scalar_cumulative nisa.tensor_scalar_reduce nisa.tensor_tensor nisa.tensor_tensor_scan nisa.topk
    nisa.vector_engine nki.jit nki.simulate nl.NKIObject nl.abs nl.abs_max nl.abs_min nl.add nl.affine_range nl.all
    nl.arctan nl.bfloat16 nl.bitwise_and nl.bitwise_or nl.bitwise_xor nl.bool nl.bool_ nl.broadcast_to nl.cast nl.ceil
    nl.copy nl.cos nl.device_print nl.divide nl.dropout nl.ds nl.dynamic_range nl.empty_like nl.equal nl.erf nl.erf_dx
    nl.exp nl.expand_dims nl.float16 nl.float32 nl.float4_e2m1fn_x4 nl.float8_e4m3 nl.float8_e4m3fn
    nl.float8_e4m3fn_x4 nl.float8_e5m2 nl.float8_e5m2_x4 nl.float8_e8m0fnu nl.floor nl.fmod nl.fori_loop nl.full
    nl.gather_flattened nl.gelu nl.gelu_apprx_sigmoid nl.gelu_apprx_sigmoid_dx nl.gelu_apprx_tanh nl.gelu_dx
    nl.greater nl.greater_equal nl.hbm nl.int16 nl.int32 nl.int8 nl.invert nl.is_hbm nl.is_on_chip nl.is_psum
    nl.is_sbuf nl.left_shift nl.less nl.less_equal nl.load nl.load_transpose2d nl.log nl.logical_and nl.logical_not
    nl.logical_or nl.logical_xor nl.matmul nl.max nl.maximum nl.mean nl.min nl.minimum nl.mish nl.mod nl.multiply
    nl.ndarray nl.negative nl.no_reorder nl.not_equal nl.num_programs nl.ones nl.power nl.prelu nl.private_hbm nl.prod
    nl.program_id nl.program_ndim nl.psum nl.rand nl.random_seed nl.range nl.reciprocal nl.relu nl.right_shift
    nl.rms_norm nl.rsqrt nl.sbuf nl.sequential_range nl.shared_constant nl.shared_hbm nl.shared_identity_matrix
    nl.sigmoid nl.sign nl.silu nl.silu_dx nl.sin nl.softmax nl.softplus nl.sqrt nl.square nl.static_range nl.store
    nl.subtract nl.sum nl.tan nl.tanh nl.tfloat32 nl.tile_size.gemm_moving_fmax nl.tile_size.gemm_stationary_fmax
    nl.tile_size.pmax nl.tile_size.psum_bank_fmax nl.tile_size.psum_fmax nl.tile_size.psum_num_banks
    nl.tile_size.sbuf_fmax nl.tile_size.sbuf_size_bytes nl.tile_size.total_available_sbuf_size nl.transpose nl.trunc
    nl.uint16 nl.uint32 nl.uint8 nl.var nl.where nl.while_loop nl.zeros nl.zeros_like nl.NkiTensor
    nl.constants.sizeinbytes
""".split()

PREFIXES = {
    "nl": "language",
    "nisa": "isa",
    "ncc": "compiler",
    "nt": "typing",
    "ncoll": "collectives",
    "nccl": "nccl",
}

#: Names that stand for something only inside a kernel.
INSIDE = ("total_available_sbuf_size", "sbuf_fmax", "sbuf_size_bytes")


def find(package, symbol):
    prefix, *names = symbol.split(".")
    module = package if prefix == "nki" else f"{package}.{PREFIXES[prefix]}"
    if names[-1] in INSIDE:
        names = names[:-1]
    return functools.reduce(getattr, names, importlib.import_module(module))


@pytest.mark.parametrize("symbol", OLD)
def test_a_name_of_the_first_dialect(symbol):
    find("neuronxcc.nki", symbol)


@pytest.mark.parametrize("symbol", NEW)
def test_a_name_of_the_second_dialect(symbol):
    find("nki", symbol)


def near(name):
    """The name with two letters exchanged: nobody has it."""
    return name[0] + name[2] + name[1] + name[3:] if len(name) > 3 and name[1] != name[2] else name + "q"


@pytest.mark.parametrize(
    ("package", "symbols", "dialect"), [("neuronxcc.nki", OLD, "first dialect"), ("nki", NEW, "second dialect")]
)
def test_a_name_that_does_not_exist_is_named_with_its_dialect_and_the_nearest(package, symbols, dialect):
    for symbol in symbols:
        prefix, name, *below = symbol.split(".")
        if below or prefix == "nki":
            continue
        module = f"{package}.{PREFIXES[prefix]}"
        wrong = near(name)
        with pytest.raises(AttributeError) as caught:
            getattr(importlib.import_module(module), wrong)
        text = str(caught.value)
        assert f"{module}.{wrong} does not exist" in text and dialect in text and f"the nearest is {module}." in text


def test_a_name_of_the_other_dialect_is_pointed_out():
    with pytest.raises(AttributeError, match=r"neuronxcc\.nki\.language\.mgrid does"):
        importlib.import_module("nki.language").mgrid
    with pytest.raises(AttributeError, match=r"nki\.isa\.topk does"):
        importlib.import_module("neuronxcc.nki.isa").topk


#: What public kernels use: a line has package, name, number of kernels and keyword arguments.
SURVEY = pathlib.Path(__file__).with_name("nki_survey.tsv")


def surveyed(package):
    """(symbol, keyword arguments) of what two kernels or more use."""
    for line in SURVEY.read_text().splitlines()[1:]:
        where, symbol, _, keywords = line.split("\t")
        if where == package:
            yield symbol, keywords.split()


@pytest.mark.parametrize("package", ["neuronxcc.nki", "nki"])
def test_every_name_of_the_survey_exists_and_takes_its_keywords(package):
    listed = OLD if package == "neuronxcc.nki" else NEW
    symbols = dict(surveyed(package))
    assert len(symbols) > 100
    assert not [symbol for symbol in symbols if symbol not in listed], "the lists above lack some"
    lacking = []
    for symbol, keywords in symbols.items():
        found = find(package, symbol)
        if not inspect.isfunction(found):
            continue
        parameters = inspect.signature(found).parameters
        if not any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            lacking += [f"{symbol}({word}=)" for word in keywords if word not in parameters]
    assert not lacking
