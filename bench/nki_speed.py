"""Processor time of an NKI instruction and of flash attention, beside NumPy in the same run.

    python bench/nki_speed.py [instructions] [attention] [--pairs 9]

Each row takes turns with NumPy doing what comes nearest to it, and medians over these pairs are printed: both slow down together on a busy host, so
the ratio tells more than the microseconds. An instruction works on a tile of one element, which leaves what Python, checks and the record cost; NumPy
adds an array of one element to itself. Attention has one head of 4096 queries and keys of depth 128, against softmax(q k) v in float32.
"""

import argparse
import statistics
import time

import numpy as np

#: Instructions of one row of a pair.
COUNT = 4_000


def seconds_of(body):
    """Seconds of the clock, and of all threads of this process."""
    clock, processor = time.perf_counter(), time.process_time()
    body()
    return time.perf_counter() - clock, time.process_time() - processor


def repeat(body):
    """The same many times, as a loop of a kernel does it."""
    def run():
        for _ in range(COUNT):
            body()

    return run


def instruction_rows(pairs):
    """(name, goal in us, microseconds of an instruction, of NumPy) by processor time."""
    import tilewright.nki

    tilewright.nki.install()
    import neuronxcc.nki.isa as old_isa
    import neuronxcc.nki.language as old_nl
    import nki.isa as isa
    import nki.language as nl

    rows = []
    one = np.zeros((1, 1), np.float32)
    numpy = repeat(lambda: np.add(one, one, out=one))

    def measure(name, goal_us, body):
        found = [(seconds_of(repeat(body))[1], seconds_of(numpy)[1]) for _ in range(pairs + 1)][1:]
        ours, theirs = (statistics.median(column) / COUNT * 1e6 for column in zip(*found))
        rows.append((name, goal_us, ours, theirs))

    def kernel():
        tile = nl.ndarray((1, 1), nl.float32)
        scale = nl.ndarray((1, 1), nl.float32)
        wide = nl.ndarray((1, 8), nl.float32)
        for each in (tile, scale, wide):
            isa.memset(each, 0)
        measure("new, tensor_tensor", 2, lambda: isa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add))
        measure("new, tensor_scalar", 2, lambda: isa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0))
        measure("new, activation", 2, lambda: isa.activation(dst=tile, op=nl.exp, data=tile, bias=scale, scale=1.0))
        measure("new, tensor_copy of slices", 2, lambda: isa.tensor_copy(dst=wide[:, 0:4], src=wide[:, 4:8]))
        row, column = old_nl.arange(1)[:, None], old_nl.arange(1)[None, :]

        def assign():
            tile[row, column] = old_isa.tensor_scalar(tile[row, column], np.add, 1.0)

        measure("old, indexed tensor_scalar", 5, assign)

        def language():
            tile[row, column] = old_nl.add(tile[row, column], tile[row, column])

        measure("old, indexed nl.add", 5, language)

    tilewright.nki.run(kernel, chip="trainium2")
    return rows


def numpy_attention(q, k, v):
    """softmax(q k / sqrt(depth)) v, whole."""
    scores = q.T @ k * np.float32(q.shape[0] ** -0.5)
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    return scores @ v / scores.sum(axis=1, keepdims=True)


def attention_row(pairs, positions=4096, depth=128):
    """Seconds of the clock and of the processor, ours and NumPy's, and the largest difference of the results."""
    import ml_dtypes

    import tilewright.nki

    tilewright.nki.install()
    from neuronxcc.nki.kernels.attention import FlashConfig, flash_fwd

    generator = np.random.default_rng(0)
    q, k = (generator.standard_normal((depth, positions), np.float32).astype(ml_dtypes.bfloat16) for _ in range(2))
    v = generator.standard_normal((positions, depth), np.float32).astype(ml_dtypes.bfloat16)
    wide = [one.astype(np.float32) for one in (q, k, v)]
    results = {}

    def ours():
        arguments = (q[None, None], k[None, None], v[None, None], None)
        config = FlashConfig(training=False)
        results["ours"] = flash_fwd[1, 1](*arguments, use_causal_mask=False, config=config)

    def numpy():
        results["numpy"] = numpy_attention(*wide)

    found = [(seconds_of(ours), seconds_of(numpy)) for _ in range(pairs + 1)][1:]
    difference = np.abs(np.asarray(results["ours"], np.float32)[0, 0] - results["numpy"]).max()
    return np.median(np.array(found), axis=0), difference


def main():
    """Prints the rows that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="instructions, attention; both if none is named")
    parser.add_argument("--pairs", type=int, default=9, help="times that each takes its turn with NumPy")
    args = parser.parse_args()
    wanted = args.rows or ["instructions", "attention"]
    if "instructions" in wanted:
        for name, goal_us, ours, numpy in instruction_rows(args.pairs):
            print(f"{name:<28} {ours:6.2f} us of processor time, {ours / numpy:5.1f} x NumPy's {numpy:.2f} us   goal {goal_us} us")
    if "attention" in wanted:
        (ours, numpy), difference = attention_row(args.pairs)
        print(
            f"flash attention, 4096 x 128  {ours[0]:.2f} s, {ours[0] / numpy[0]:.2f} x NumPy's {numpy[0]:.2f} s"
            f" ({ours[1] / numpy[1]:.2f} by processor time), differs by {difference:.1e}   goal 1.00"
        )


if __name__ == "__main__":
    main()
