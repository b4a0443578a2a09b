"""Kernels in the dialect whose instructions take their destination."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(a.shape[0] // 128):
        x = nl.ndarray((128, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
        y = nl.ndarray((128, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a[i * 128 : (i + 1) * 128])
        nisa.dma_copy(dst=y, src=b[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=x)
    return out


@nki.jit
def matmul(left_t, right):
    k, m = left_t.shape
    n = right.shape[1]
    out = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(m // 128):
        for j in range(n // 512):
            sums = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for step in range(k // 128):
                a = nl.ndarray((128, 128), dtype=left_t.dtype, buffer=nl.sbuf)
                b = nl.ndarray((128, 512), dtype=right.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=a, src=left_t[nl.ds(step * 128, 128), nl.ds(i * 128, 128)])
                nisa.dma_copy(dst=b, src=right[nl.ds(step * 128, 128), nl.ds(j * 512, 512)])
                nisa.nc_matmul(dst=sums, stationary=a, moving=b)
            result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=sums)
            nisa.dma_copy(dst=out[nl.ds(i * 128, 128), nl.ds(j * 512, 512)], src=result)
    return out


@nki.jit
def softmax(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    largest = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    sums = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=tile, axis=1, negate=True)
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=largest, reduce_op=nl.add, reduce_res=sums)
    nisa.reciprocal(dst=sums, data=sums)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=sums)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def transpose(x):
    out = nl.ndarray((x.shape[1], x.shape[0]), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    turned = nl.ndarray((x.shape[1], x.shape[0]), dtype=x.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)
    result = nl.ndarray(turned.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=turned)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def causal(x):
    """Zeros above the diagonal."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.affine_select(
        dst=tile,
        pattern=[[-1, x.shape[1]]],
        channel_multiplier=1,
        on_true_tile=tile,
        on_false_value=0.0,
        cmp_op=nl.greater_equal,
    )
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def even_columns(x):
    """Every second column, by an access pattern."""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns // 2), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    half = nl.ndarray((rows, columns // 2), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=half, src=tile.ap(pattern=[[columns, rows], [2, columns // 2]]))
    nisa.dma_copy(dst=out, src=half)
    return out


@nki.jit
def exchange(x):
    """Each of two cores gets the other's half."""
    core = nl.program_id(0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    mine = nl.ndarray((64, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    theirs = nl.ndarray((64, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=mine, src=x[nl.ds(core * 64, 64)])
    nisa.sendrecv(src=mine, dst=theirs, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    nisa.core_barrier(data=out, cores=(0, 1))
    nisa.dma_copy(dst=out[nl.ds(core * 64, 64)], src=theirs)
    return out
