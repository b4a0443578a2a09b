"""Kernels of the second dialect: the MLP of a decoding step, attention of a prompt, an exchange between two cores."""

import nki
import nki.isa as nisa
import nki.language as nl

PART, WIDE = 128, 512


def _tile(shape, dtype, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


@nki.jit
def mlp(x_t, gate, up, down, gate_bias=None, up_bias=None, down_bias=None, norm=True):
    """silu(x gate) * (x up) down. x_t: [H, T]; gate, up: [H, I]; down: [I, H]; biases: [1, I] and [1, H]. Partition p holds rows p H/128 and on."""
    hidden, tokens = x_t.shape
    inner = gate.shape[1]
    out = nl.ndarray((tokens, hidden), dtype=x_t.dtype, buffer=nl.shared_hbm)
    steps = hidden // PART
    x = _tile((PART, steps * tokens), x_t.dtype)
    nisa.dma_copy(dst=x, src=x_t.reshape((PART, steps * tokens)))
    if norm:
        x = _normed(x, steps, tokens, hidden)
    sums = []
    for weights, bias in ((gate, gate_bias), (up, up_bias)):
        total = _product(x, weights.reshape((PART, steps * inner)), steps, tokens, inner)
        if bias is not None:
            _add_row(total, bias)
        sums.append(total)
    hot = _tile((tokens, inner), nl.float32)
    nisa.activation(dst=hot, op=nl.silu, data=sums[0])
    both = _tile((tokens, inner), x_t.dtype)
    nisa.tensor_tensor(dst=both, data1=hot, data2=sums[1], op=nl.multiply)
    _project(out, both, down, down_bias, tokens, inner, hidden)
    return out


def _add_row(tile, row):
    """Adds a row to every row of a tile."""
    held = _tile(tile.shape, row.dtype)
    nisa.dma_copy(dst=held, src=row.broadcast(0, tile.shape[0]))
    nisa.tensor_tensor(dst=tile, data1=tile, data2=held, op=nl.add)


def _normed(x, steps, tokens, hidden):
    """Every token divided by its root mean square; sums over partitions by a product with ones."""
    squares = _tile((PART, steps * tokens), nl.float32)
    nisa.activation(dst=squares, op=nl.square, data=x)
    part = _tile((PART, tokens), nl.float32)
    nisa.tensor_reduce(dst=part, op=nl.add, data=squares.reshape((PART, steps, tokens)).permute((0, 2, 1)), axis=2)
    ones = _tile((PART, PART), nl.float32)
    nisa.memset(dst=ones, value=1.0 / hidden)
    mean = _tile((PART, tokens), nl.float32, nl.psum)
    nisa.nc_matmul(dst=mean, stationary=ones, moving=part)
    inverse = _tile((PART, tokens), nl.float32)
    nisa.activation(dst=inverse, op=nl.rsqrt, data=mean)
    out = _tile((PART, steps * tokens), x.dtype)
    for step in range(steps):
        cut = slice(step * tokens, (step + 1) * tokens)
        nisa.tensor_tensor(dst=out[:, cut], data1=x[:, cut], data2=inverse, op=nl.multiply)
    return out


def _product(x, flat, steps, tokens, inner):
    """x @ weights in SBUF, with the tokens on partitions; the weights come in pieces of whole rows."""
    out = _tile((tokens, inner), nl.float32)
    cuts = [(first, min(WIDE, inner - first)) for first in range(0, inner, WIDE)]
    sums = [_tile((tokens, count), nl.float32, nl.psum) for _, count in cuts]
    chunk = max(1, 8192 // inner)
    for begin in range(0, steps, chunk):
        end = min(begin + chunk, steps)
        held = _tile((PART, (end - begin) * inner), flat.dtype)
        nisa.dma_copy(dst=held, src=flat[:, begin * inner : end * inner])
        for step in range(begin, end):
            left = x[:, step * tokens : (step + 1) * tokens]
            for (first, count), part in zip(cuts, sums):
                at = (step - begin) * inner + first
                nisa.nc_matmul(dst=part, stationary=left, moving=held[:, at : at + count])
    for (first, count), part in zip(cuts, sums):
        nisa.tensor_copy(dst=out[:, first : first + count], src=part)
    return out


def _project(out, both, down, bias, tokens, inner, hidden):
    """both @ down, rows of down on partitions."""
    high = next(size for size in range(PART, 0, -1) if inner % size == 0)
    block = min(hidden, 4096)
    turned = []
    for first in range(0, inner, high):
        flipped = _tile((high, tokens), both.dtype, nl.psum)
        nisa.nc_transpose(dst=flipped, data=both[:, first : first + high])
        tile = _tile((high, tokens), both.dtype)
        nisa.tensor_copy(dst=tile, src=flipped)
        turned.append(tile)
    for start in range(0, hidden, block):
        count = min(block, hidden - start)
        held = []
        for first in range(0, inner, high):
            rows = _tile((high, count), down.dtype)
            nisa.dma_copy(dst=rows, src=down[first : first + high, start : start + count])
            held.append(rows)
        result = _tile((tokens, count), out.dtype)
        for first in range(0, count, WIDE):
            sums = _tile((tokens, WIDE), nl.float32, nl.psum)
            for tile, rows in zip(turned, held):
                nisa.nc_matmul(dst=sums, stationary=tile, moving=rows[:, first : first + WIDE])
            nisa.tensor_copy(dst=result[:, first : first + WIDE], src=sums)
        if bias is not None:
            _add_row(result, bias[:, start : start + count])
        nisa.dma_copy(dst=out[:, start : start + count], src=result)


@nki.jit
def attention(q, k_t, v, causal=False, wide=1024):
    """Attention of one head, probabilities in BF16. q: [Sq, d]; k_t: [d, Skv]; v: [Skv, d]; q is turned here."""
    length, d = q.shape
    keys = k_t.shape[1]
    low = nl.bfloat16
    out = nl.ndarray((length, d), dtype=q.dtype, buffer=nl.shared_hbm)
    k_all = _tile((d, keys), low)
    nisa.dma_copy(dst=k_all, src=k_t)
    values = _tile((PART, keys // PART * d), low)
    nisa.dma_copy(dst=values.reshape((PART, keys // PART, d)), src=v.reshape((keys // PART, PART, d)).permute((1, 0, 2)))
    for row in range(0, length, PART):
        q_tile = _tile((PART, d), low)
        nisa.dma_copy(dst=q_tile, src=q[row : row + PART, :])
        flipped = _tile((d, PART), low, nl.psum)
        nisa.nc_transpose(dst=flipped, data=q_tile)
        q_t = _tile((d, PART), low)
        nisa.tensor_copy(dst=q_t, src=flipped)
        state = None
        for first in range(0, keys, wide):
            if causal and first > row + PART - 1:
                break
            count = min(wide, keys - first, row + PART - first if causal else wide)
            state = _section(state, q_t, k_all, values, row, first, count, d, causal)
        inverse = _tile((PART, 1), nl.float32)
        nisa.reciprocal(dst=inverse, data=state[1])
        result = _tile((PART, d), q.dtype)
        nisa.tensor_scalar(dst=result, data=state[2], op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[row : row + PART, :], src=result)
    return out


def _section(state, q_t, k_all, values, row, first, wide, d, causal):
    """One tile of queries against one section of keys: negative maximum, sum of powers, weighted values."""
    scores = _tile((PART, wide), nl.float32, nl.psum)
    for j in range(0, wide, WIDE):
        end = min(j + WIDE, wide)
        nisa.nc_matmul(dst=scores[:, j:end], stationary=q_t, moving=k_all[:, first + j : first + end])
    if causal and first + wide - 1 > row:
        masked = _tile((PART, wide), nl.float32)
        nisa.activation(dst=masked, op=nl.copy, data=scores)
        nisa.affine_select(
            dst=masked, pattern=[[-1, wide]], channel_multiplier=1, on_true_tile=masked,
            on_false_value=-9984.0, offset=row - first, cmp_op=nl.greater_equal,
        )
        scores = masked
    low = _tile((PART, 1), nl.float32)
    nisa.tensor_reduce(dst=low, op=nl.maximum, data=scores, axis=1, negate=True)
    if state is not None:
        nisa.tensor_tensor(dst=low, data1=low, data2=state[0], op=nl.minimum)
    total = _tile((PART, 1), nl.float32)
    powers = _tile((PART, wide), nl.bfloat16)
    nisa.activation_reduce(dst=powers, op=nl.exp, data=scores, reduce_op=nl.add, reduce_res=total, bias=low)
    turned, held = _tile((PART, wide), nl.bfloat16, nl.psum), _tile((PART, wide), nl.bfloat16)
    for step in range(0, wide, PART):
        nisa.nc_transpose(dst=turned[:, step : step + PART], data=powers[:, step : step + PART])
    # Both engines that reach PSUM take their part.
    scalar = (first // PART // 8) % 2 == 1
    nisa.tensor_copy(dst=held, src=turned, engine=nisa.scalar_engine if scalar else nisa.vector_engine)
    sums = _tile((PART, d), nl.float32, nl.psum)
    for step in range(0, wide, PART):
        at = (first + step) // PART * d
        nisa.nc_matmul(dst=sums, stationary=held[:, step : step + PART], moving=values[:, at : at + d])
    result = _tile((PART, d), nl.float32)
    if state is None:
        nisa.tensor_copy(dst=result, src=sums)
        return low, total, result
    fade = _tile((PART, 1), nl.float32)
    nisa.activation(dst=fade, op=nl.exp, data=state[0], scale=-1.0, bias=low)
    nisa.scalar_tensor_tensor(dst=total, data=state[1], op0=nl.multiply, operand0=fade, op1=nl.add, operand1=total)
    nisa.scalar_tensor_tensor(dst=result, data=state[2], op0=nl.multiply, operand0=fade, op1=nl.add, operand1=sums)
    return low, total, result
