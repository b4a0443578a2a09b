"""`neuronxcc.nki.kernels.attention`: attention and its gradient, block by block, with a running maximum and sum."""

import dataclasses
import functools
import math

import numpy as np

import tilewright.nki.old as nki
import tilewright.nki.old.isa as nisa
import tilewright.nki.old.language as nl

#: Queries of a block, and keys.
ROWS, KEYS = 128, 512
#: Keys that stay in SBUF with their values: 32 KB of a partition in bfloat16, 64 in float32.
HELD_KEYS = 8192
#: Score of a key that is not looked at: its power is zero, and the difference of two is a number.
HIDDEN = -1e30


@dataclasses.dataclass(frozen=True)
class FlashConfig:
    """Choices of `flash_fwd`; sizes of tiles are taken and change nothing here."""

    seq_tile_size: int = 2048
    attn_core_tile_size: int = 256
    training: bool = True
    should_transpose_v: bool = False
    lse_dtype: str = ""


def _need(holds, what):
    if not holds:
        raise ValueError(what)


def _held_if(holds):
    """Makes a function that loads tiles keep them in SBUF for all blocks of queries, if they fit."""
    return functools.cache if holds else lambda load: load


def _hide(scores, first_query, first_key, causal, window):
    """Scores without keys behind their query, or farther before it than the window."""
    rows, columns = scores.shape
    if scores.buffer == nl.psum and (causal or window > 0):
        scores = nl.copy(scores)
    query, key = nl.arange(rows)[:, None], nl.arange(columns)[None, :]
    if causal and first_key + columns - 1 > first_query:
        scores = nisa.affine_select(pred=(first_query + query >= first_key + key), on_true_tile=scores, on_false_value=HIDDEN)
    if window > 0 and first_key <= first_query + rows - 1 - window:
        scores = nisa.affine_select(pred=(first_key + key > first_query + query - window), on_true_tile=scores, on_false_value=HIDDEN)
    return scores


def _looked_at(first_query, rows, first_key, keys, causal, window):
    """True if a query of the block looks at a key of the block."""
    after = causal and first_key > first_query + rows - 1
    before = window > 0 and first_key + keys - 1 <= first_query - window
    return not after and not before


def _attend(q_tile, load_keys, load_values, total, first_query, causal, window, dtype, bias=None):
    """(outputs, log of the sum of powers) of one block of queries; `q_tile` is [depth, queries], scaled."""
    depth, rows = q_tile.shape
    largest = nl.full((rows, 1), HIDDEN, nl.float32)
    powers_sum = nl.zeros((rows, 1), nl.float32, buffer=nl.sbuf)
    outputs = nl.zeros((rows, depth), nl.float32, buffer=nl.sbuf)
    for first in range(0, total, KEYS):
        keys = min(KEYS, total - first)
        if not _looked_at(first_query, rows, first, keys, causal, window):
            continue
        scores = nl.matmul(q_tile, load_keys(first, keys), transpose_x=True)
        if bias is not None:
            scores = nl.add(nl.copy(scores), bias(first, keys))
        scores = _hide(scores, first_query, first, causal, window)
        now = nl.maximum(largest, nl.max(scores, axis=1, keepdims=True))
        # The Scalar engine subtracts the maximum, takes the power, rounds and sums in one pass.
        negative, part_sum = nl.negative(now), nl.ndarray((rows, 1), nl.float32, buffer=nl.sbuf)
        powers = nisa.activation_reduce(np.exp, scores, reduce_op=np.add, reduce_res=part_sum, bias=negative, dtype=dtype)
        kept = nisa.activation(np.exp, largest, bias=negative)
        powers_sum = nisa.scalar_tensor_tensor(data=powers_sum, op0=np.multiply, operand0=kept, op1=np.add, operand1=part_sum)
        found = nl.zeros((rows, depth), nl.float32, buffer=nl.psum)
        for part in range(0, keys, ROWS):
            size = min(ROWS, keys - part)
            found += nl.matmul(powers[:, nl.ds(part, size)], load_values(first + part, size))
        outputs = nisa.scalar_tensor_tensor(data=outputs, op0=np.multiply, operand0=kept, op1=np.add, operand1=found)
        largest = now
    outputs = nl.divide(outputs, powers_sum)
    return outputs, nl.add(largest, nl.log(powers_sum))


@nki.jit
def flash_fwd(q, k, v, seed, logit_bias=None, softmax_scale=None, use_causal_mask=True, sliding_window=-1, mixed_precision=True, dropout_p=0.0, config=None):
    """softmax(q k) v for q of [batch, heads, depth, queries], k of [batch, key heads, depth, keys] and v of [batch, key heads, keys, depth], launched as
    `flash_fwd[batch, key heads](...)`; with training also the logarithm of each sum of powers."""
    config = config or FlashConfig()
    batch, heads, depth, queries = q.shape
    key_heads, keys = k.shape[1], k.shape[3]
    _need(dropout_p == 0, f"dropout with a probability of {dropout_p}: this kernel has none; pass dropout_p=0")
    _need(queries % ROWS == 0, f"{queries} queries: a multiple of {ROWS}")
    causal = use_causal_mask or sliding_window > 0
    dtype = nl.bfloat16 if mixed_precision else q.dtype
    scale = softmax_scale or 1.0 / math.sqrt(depth)
    out = nl.ndarray((batch, heads, queries, depth), dtype=q.dtype, buffer=nl.shared_hbm)
    kept = nl.float32 if not config.lse_dtype else getattr(nl, config.lse_dtype)
    sums = nl.ndarray((batch, heads, ROWS, queries // ROWS), dtype=kept, buffer=nl.shared_hbm) if config.training else None
    sample, key_head = nl.program_id(0), nl.program_id(1)

    @_held_if(keys <= HELD_KEYS)
    def load_keys(first, count):
        return nl.load(k[sample, key_head, :, nl.ds(first, count)], dtype=dtype)

    @_held_if(keys <= HELD_KEYS)
    def load_values(first, count):
        if config.should_transpose_v:
            return nl.transpose(nl.load(v[sample, key_head, :, nl.ds(first, count)], dtype=dtype))
        return nl.load(v[sample, key_head, nl.ds(first, count), :], dtype=dtype)

    for head in range(key_head * (heads // key_heads), (key_head + 1) * (heads // key_heads)):
        for block in range(queries // ROWS):
            first_query = block * ROWS
            tile = nl.copy(nl.multiply(nl.load(q[sample, head, :, nl.ds(first_query, ROWS)]), scale), dtype=dtype)

            def bias(first, count, head=head, first_query=first_query):
                return nl.load(logit_bias[sample, head, nl.ds(first_query, ROWS), nl.ds(first, count)])

            found, logs = _attend(tile, load_keys, load_values, keys, first_query, causal, sliding_window, dtype, None if logit_bias is None else bias)
            nl.store(out[sample, head, nl.ds(first_query, ROWS), :], nl.copy(found, dtype=q.dtype))
            if sums is not None:
                nl.store(sums[sample, head, :, nl.ds(block, 1)], nl.copy(logs, dtype=kept))
    return (out, sums) if config.training else out


@nki.jit
def fused_self_attn_for_SD_small_head_size(q_ref, k_ref, v_ref, use_causal_mask=False, mixed_precision=True):
    """softmax(q k / 8) v for q of [batch, depth, length], k and v of [batch, length, depth], launched as `kernel[batch](...)`."""
    batch, depth, length = q_ref.shape
    _need(depth <= ROWS and length % ROWS == 0, f"heads of {depth} and {length} positions: at most {ROWS} and a multiple of {ROWS}")
    dtype = nl.bfloat16 if mixed_precision else nl.float32
    out = nl.ndarray((batch, length, depth), dtype=q_ref.dtype, buffer=nl.shared_hbm)
    sample = nl.program_id(0)
    # Each block of keys is turned once.
    turned = [nl.copy(nl.transpose(nl.load(k_ref[sample, nl.ds(first, ROWS), :], dtype=dtype)), dtype=dtype) for first in range(0, length, ROWS)]

    def load_keys(first, count):
        tile = nl.ndarray((depth, count), dtype=dtype, buffer=nl.sbuf)
        for at in range(0, count, ROWS):
            tile[:, nl.ds(at, ROWS)] = nl.copy(turned[(first + at) // ROWS])
        return tile

    def load_values(first, count):
        return nl.load(v_ref[sample, nl.ds(first, count), :], dtype=dtype)

    for first_query in range(0, length, ROWS):
        tile = nl.copy(nl.multiply(nl.load(q_ref[sample, :, nl.ds(first_query, ROWS)]), 0.125), dtype=dtype)
        found, _ = _attend(tile, load_keys, load_values, length, first_query, use_causal_mask, -1, dtype)
        nl.store(out[sample, nl.ds(first_query, ROWS), :], nl.copy(found, dtype=q_ref.dtype))
    return out


@nki.jit
def flash_attn_bwd(
    q_ref, k_ref, v_ref, o_ref, dy_ref, lse_ref, seed_ref, logit_bias_ref=None, use_causal_mask=False, mixed_precision=False, dropout_p=0.0, softmax_scale=None, sliding_window=-1, sinks=None
):
    """Gradients of `flash_fwd` for q, k and v, all tensors of [batch, heads, depth, positions], launched as `kernel[batch, key heads](...)`."""
    batch, heads, depth, queries = q_ref.shape
    key_heads, keys = k_ref.shape[1], k_ref.shape[3]
    _need(dropout_p == 0 and sinks is None, "dropout or sinks: this kernel has neither; pass dropout_p=0 and sinks=None")
    _need(queries % ROWS == 0 and keys % ROWS == 0, f"{queries} queries and {keys} keys: multiples of {ROWS}")
    causal, scale = use_causal_mask or sliding_window > 0, softmax_scale or 1.0 / math.sqrt(depth)
    results = [nl.ndarray(one.shape, dtype=one.dtype, buffer=nl.shared_hbm) for one in (q_ref, k_ref, v_ref)]
    sample, key_head = nl.program_id(0), nl.program_id(1)
    group = range(key_head * (heads // key_heads), (key_head + 1) * (heads // key_heads))
    blocks = queries // ROWS
    sums = {(head, at): nl.zeros((depth, ROWS), nl.float32, buffer=nl.sbuf) for head in group for at in range(blocks)}
    for first in range(0, keys, ROWS):
        place = nl.ds(first, ROWS)
        k_tile, v_tile = (nl.load(one[sample, key_head, :, place]) for one in (k_ref, v_ref))
        dk, dv = (nl.zeros((depth, ROWS), nl.float32, buffer=nl.sbuf) for _ in range(2))
        for head in group:
            for at in range(blocks):
                if not _looked_at(at * ROWS, ROWS, first, ROWS, causal, sliding_window):
                    continue
                queries_at = nl.ds(at * ROWS, ROWS)
                q_tile, o_tile, dy = (nl.load(one[sample, head, :, queries_at]) for one in (q_ref, o_ref, dy_ref))
                scores = nl.multiply(nl.matmul(q_tile, k_tile, transpose_x=True), scale)
                if logit_bias_ref is not None:
                    scores = nl.add(scores, nl.load(logit_bias_ref[sample, head, queries_at, place]))
                scores = _hide(scores, at * ROWS, first, causal, sliding_window)
                logs = nl.load(lse_ref[sample, head, :, nl.ds(at, 1)])
                powers = nl.exp(nl.subtract(scores, logs))
                dots = nl.sum(nl.transpose(nl.multiply(nl.copy(o_tile, dtype=np.float32), dy)), axis=1, keepdims=True)
                inner = nl.subtract(nl.matmul(dy, v_tile, transpose_x=True), dots)
                d_scores = nl.multiply(nl.multiply(powers, inner), scale)
                narrow = [nl.copy(one, dtype=q_ref.dtype) for one in (powers, d_scores)]
                dv = nl.add(dv, nl.matmul(dy, narrow[0]))
                dk = nl.add(dk, nl.matmul(q_tile, narrow[1]))
                sums[head, at] = nl.add(sums[head, at], nl.matmul(k_tile, nl.copy(nl.transpose(narrow[1]), dtype=q_ref.dtype)))
        nl.store(results[1][sample, key_head, :, place], nl.copy(dk, dtype=k_ref.dtype))
        nl.store(results[2][sample, key_head, :, place], nl.copy(dv, dtype=v_ref.dtype))
    for (head, at), total in sums.items():
        nl.store(results[0][sample, head, :, nl.ds(at * ROWS, ROWS)], nl.copy(total, dtype=q_ref.dtype))
    return tuple(results)
