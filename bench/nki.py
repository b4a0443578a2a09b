"""Host speed of the NKI front end: import, time of one instruction, timing of a program, a large matmul.

Run with the package installed: python bench/nki.py
Beside each figure stands the same by processor time, for hosts that do other work meanwhile.
"""

import subprocess
import sys
import time

import numpy as np

COUNT = 20_000


def clocks():
    """Seconds of the clock, and of the processor."""
    return np.array([time.perf_counter(), time.process_time()])


def import_ms():
    """Milliseconds of `import tilewright.nki` in a new interpreter, least of three."""
    now = "time.perf_counter(), time.process_time()"
    code = f"import time; t, p = {now}; import tilewright.nki; u, q = {now}; print(u - t, q - p)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.split() for _ in range(3)]
    return np.min(np.array(runs, np.float64), axis=0) * 1e3


def instruction_us():
    """Microseconds of one instruction on a tile of one element, in both dialects, Python included."""
    import tilewright.nki

    tilewright.nki.install()
    import neuronxcc.nki.isa as old_isa
    import neuronxcc.nki.language as old_nl
    import nki.isa as new_isa
    import nki.language as new_nl

    found = {}

    def timed(name, body):
        start = clocks()
        for _ in range(COUNT):
            body()
        found[name] = (clocks() - start) / COUNT * 1e6

    def kernel():
        tile = new_nl.ndarray((1, 1), new_nl.float32)
        new_isa.memset(tile, 0)
        timed("new, tensor_tensor", lambda: new_isa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=new_nl.add))
        rows, columns = old_nl.arange(1)[:, None], old_nl.arange(1)[None, :]

        def assign():
            tile[rows, columns] = old_isa.tensor_scalar(tile[rows, columns], np.add, 1.0)

        timed("old, indexed tensor_scalar", assign)

    result = tilewright.nki.run(kernel)
    count = len(result.instructions)
    start = clocks()
    result.timing
    found["timing, of each instruction"] = (clocks() - start) / count * 1e6
    return found


def matmul_gflops(size=4096, pairs=5):
    """Functional rate of a blocked bf16 matmul kernel, of NumPy's float32 matmul, and the share: medians of pairs that take turns."""
    import ml_dtypes
    import neuronxcc.nki.language as nl
    import tilewright.nki

    def kernel(left_t, right):
        k, m = left_t.shape
        n = right.shape[1]
        out = nl.ndarray((m, n), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        steps, wide = k // 128, min(n, 1024)
        for block in nl.affine_range(n // wide):
            b = [nl.load(right[nl.ds(step * 128, 128), nl.ds(block * wide, wide)]) for step in range(steps)]
            for i in nl.affine_range(m // 128):
                a = [nl.load(left_t[nl.ds(step * 128, 128), nl.ds(i * 128, 128)]) for step in range(steps)]
                for j in nl.affine_range(wide // 512):
                    sums = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
                    for step in nl.affine_range(steps):
                        sums += nl.matmul(a[step], b[step][:, nl.ds(j * 512, 512)], transpose_x=True)
                    nl.store(out[nl.ds(i * 128, 128), nl.ds(block * wide + j * 512, 512)], value=sums)
        return out

    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal((size, size), np.float32).astype(ml_dtypes.bfloat16) for _ in range(2))
    wide_a, wide_b = a.T.astype(np.float32), b.astype(np.float32)
    rates = []
    for _ in range(1 + pairs):
        start = clocks()
        result = tilewright.nki.run(kernel, a, b)
        ours = 2 * size**3 / (clocks() - start) / 1e9
        start = clocks()
        expected = wide_a @ wide_b
        numpy = 2 * size**3 / (clocks() - start) / 1e9
        rates.append((ours, numpy, ours / numpy))
    assert np.allclose(result.outputs.astype(np.float32), expected, rtol=0.02, atol=0.5)
    # The first pair finds everything cold.
    return np.median(rates[1:], axis=0)


def million(count=1_000_000):
    """Seconds to time so many recorded instructions of a kernel that streams through a large tensor, and MiB it takes."""
    import resource

    import nki.isa as isa
    import nki.language as nl
    import tilewright.nki
    from tilewright.nki.kernel import ShapeOnly

    steps = count // 5

    def kernel(a, b):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        for step in range(steps):
            left, right = nl.ndarray((1, 4), a.dtype), nl.ndarray((1, 4), a.dtype)
            isa.dma_copy(dst=left, src=a[step : step + 1])
            isa.dma_copy(dst=right, src=b[step : step + 1])
            isa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
            isa.activation(dst=right, data=left, op=nl.exp)
            isa.dma_copy(dst=out[step : step + 1], src=right)
        return out

    shape = ShapeOnly((steps, 4), np.float32)
    result = tilewright.nki.run(kernel, shape, shape, chip="trainium2", dialect="new", values=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, busy = time.perf_counter(), time.process_time()
    result.timing
    taken, busy = time.perf_counter() - start, time.process_time() - busy
    return taken, busy, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, len(result.instructions)


def main():
    """Prints each figure beside its goal."""
    wall, processor = import_ms()
    print(f"import tilewright.nki     {wall:8.0f} ms ({processor:.0f} of the processor)   goal 300")
    for name, (wall, processor) in instruction_us().items():
        print(f"{name:<26}{wall:8.2f} us ({processor:.2f})   goal {2 if name.startswith('timing') else 15}")
    taken, busy, mib, count = million()
    print(f"timing {count} instructions {taken:.2f} s ({busy:.2f} s of processor time), {mib:.0f} MiB more   goals 2 s, 500 MB")
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
    ours, numpy, share = matmul_gflops(size)
    print(
        f"matmul kernel, bf16       {ours[0]:8.1f} GFLOP/s, NumPy float32 {numpy[0]:.1f}: {share[0]:.2f} of it "
        f"({share[1]:.2f} by the processor)   goal 0.5"
    )


if __name__ == "__main__":
    main()
