"""Our own kernels against NumPy, the times of the model against published rows, and the readings of a run."""

import json
import pathlib
import re
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import tilewright.nki as tn
from conftest import DEEP

tn.install()

FOLDER = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(FOLDER / "kernels" / "nki"))

import attention  # noqa: E402
import backward  # noqa: E402
import decode  # noqa: E402
import elementwise  # noqa: E402
import fused  # noqa: E402
import mamba  # noqa: E402
import matmul  # noqa: E402
import norm  # noqa: E402
import pictures  # noqa: E402
import placed  # noqa: E402
import probes  # noqa: E402
from tilewright.nki import display, published  # noqa: E402
from tilewright.nki.kernel import ShapeOnly  # noqa: E402

ROWS = published.read_rows(FOLDER / "bench" / "published.toml")
KERNELS = published.Kernels(str(FOLDER / "kernels" / "nki"))


@pytest.fixture
def random():
    generator = np.random.default_rng(0)
    return lambda *shape: generator.standard_normal(shape, np.float32)


def near(found, expected, tolerance=1e-4):
    found = np.asarray(found, np.float32)
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


def softmax_product(q, k, v, causal=False):
    scores = q.T @ k
    if causal:
        rows, columns = np.arange(scores.shape[0])[:, None], np.arange(scores.shape[1])[None]
        scores = np.where(rows >= columns, scores, -9984.0)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True) @ v


@pytest.mark.parametrize("name, options", [("tiled", {}), ("hoisted", {}), ("block_free", {}), ("full", dict(tiles_m=2, tiles_n=2, tiles_k=2))])
def test_products(random, name, options):
    a, b = random(256, 256), random(256, 1024)
    near(getattr(matmul, name)(a, b, **options), a.T @ b)


def test_products_of_other_layouts(random):
    a, b = random(128, 256), random(256, 1024)
    near(matmul.row_major(a, b), a @ b)
    a, b = random(2, 64, 128), random(2, 64, 512)
    near(matmul.batched(a, b), a.transpose(0, 2, 1) @ b)


@pytest.mark.parametrize("name", ["states_outside", "channels_outside", "sequence_tiled"])
def test_mamba(random, name):
    delta, u, a = np.abs(random(1, 128, 1024)) * 0.1, random(1, 128, 1024), -np.abs(random(128, 4))
    b, c = random(1, 4, 1024), random(1, 4, 1024)
    expected, state = np.zeros((128, 1024)), np.zeros((128, 4))
    for step in range(1024):
        d = delta[0, :, step, None]
        state = np.exp(d * a) * state + d * u[0, :, step, None] * b[0, None, :, step]
        expected[:, step] = (state * c[0, None, :, step]).sum(1)
    near(getattr(mamba, name)(delta, u, a, b, c)[0], expected)


def test_attention(random):
    q, k, v = random(64, 256) * 0.3, random(64, 1024) * 0.3, random(1024, 64)
    near(attention.naive(q, k, v), softmax_product(q, k, v))
    near(attention.fused(q, k, v), softmax_product(q, k, v))
    by_hand = tn.run(placed.attention, q, k, v, chip="trainium1")
    near(by_hand.outputs, softmax_product(q, k, v))
    assert by_hand.findings == []
    q, k, v = random(2, 64, 1024) * 0.3, random(1, 64, 1024) * 0.3, random(1, 1024, 64)
    for causal in (False, True):
        near(attention.flash(q, k, v, causal=causal, wide=512)[1], softmax_product(q[1], k[0], v[0], causal))
        found = decode.attention(q[0].T.copy(), k[0], v[0], causal=causal, wide=512)
        near(found, softmax_product(q[0], k[0], v[0], causal), 3e-2)


@pytest.mark.parametrize("causal", [False, True])
def test_the_gradient_of_attention(random, causal):
    q, k, v, dy = (random(1, 1024, 64) * 0.5 for _ in range(4))
    scores = 0.2 * (q[0] @ k[0].T)
    if causal:
        scores[np.triu_indices(1024, 1)] = -np.inf
    sums = np.log(np.exp(scores).sum(1))
    powers = np.exp(scores - sums[:, None])
    d_powers = dy[0] @ v[0].T
    d_scores = 0.2 * powers * (d_powers - (d_powers * powers).sum(1, keepdims=True))
    rows = np.stack([q, k, dy])
    found = backward.flash_backward(
        rows.transpose(0, 1, 3, 2).copy(), rows, v.transpose(0, 2, 1).copy(), (powers @ v[0])[None], sums[None], scale=0.2, causal=causal
    )
    for one, wanted in zip(found[:, 0], (d_scores @ k[0], d_scores.T @ q[0], powers.T @ dy[0])):
        near(one, wanted)


def test_norms_and_streams(random):
    x, gamma, beta, right = random(256, 1024), random(1024), random(1024), random(1024, 512)
    scaled = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gamma + beta
    near(norm.layer_norm(x, gamma, beta), scaled)
    near(norm.layer_norm_stats(x, gamma, beta), scaled)
    root = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6)
    near(norm.norm_qkv(x, right), root @ right)
    near(elementwise.norm_matmul(x, right, epsilon=1e-6), root @ right)
    near(elementwise.silu(x), x / (1 + np.exp(-x)))
    near(elementwise.silu_fused(x, 512).reshape(x.shape), x / (1 + np.exp(-x)))
    near(elementwise.silu_prefetch(x, 512).reshape(x.shape), x / (1 + np.exp(-x)))
    w, g, m, v = random(200, 256), random(200, 256), random(200, 256), random(200, 256) ** 2
    first, second = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    near(elementwise.adamw(w, g, m, v), w * (1 - 1e-4) - 0.01 * first / (np.sqrt(second) + 1e-8))
    image = random(160, 8, 8)
    near(elementwise.adaptive_pool(image, 2, 2), image.reshape(160, 2, 4, 2, 4).mean((2, 4)))


def test_a_decoding_step(random):
    x, gate, up, down = random(1024, 4), random(1024, 448) * 0.1, random(1024, 448) * 0.1, random(448, 1024) * 0.1
    normed = (x / np.sqrt((x * x).mean(0, keepdims=True))).T
    hot = normed @ gate
    near(decode.mlp(x, gate, up, down), (hot / (1 + np.exp(-hot)) * (normed @ up)) @ down)


def test_a_decoding_step_with_biases(random):
    x, gate, up, down = random(512, 4), random(512, 448) * 0.1, random(512, 448) * 0.1, random(448, 512) * 0.1
    biases = random(1, 448), random(1, 448), random(1, 512)
    hot = x.T @ gate + biases[0]
    wanted = (hot / (1 + np.exp(-hot)) * (x.T @ up + biases[1])) @ down + biases[2]
    near(decode.mlp(x, gate, up, down, *biases, norm=False), wanted)


def test_products_with_more_in_them(random):
    x, weights, residual, gain = random(256, 256), random(256, 512), random(256, 512), random(512)
    total = x @ weights + residual
    near(fused.matmul_add_norm(x, weights, residual, gain), total / np.sqrt((total**2).mean(1, keepdims=True) + 1e-5) * gain)
    weights, down, up = random(256, 1024), random(256, 64), random(64, 1024)
    near(fused.lora(x, weights, down, up), x @ weights + x @ down @ up)


def test_a_quantised_product(random):
    x, scales = random(256, 512).astype(ml_dtypes.bfloat16), np.abs(random(1, 512))
    weights = (random(512, 512) * 20).astype(ml_dtypes.float8_e4m3)
    found = tn.run(fused.quantised, x, weights, scales, chip="trainium2").outputs
    near(found, x.astype(np.float32) @ weights.astype(np.float32) * scales, 0.03)
    step = np.abs(x.astype(np.float32)).max(1, keepdims=True) / 240
    rounded = (x.astype(np.float32) / step).astype(ml_dtypes.bfloat16).astype(ml_dtypes.float8_e4m3).astype(np.float32)
    near(found, rounded @ weights.astype(np.float32) * step * scales, 0.01)


def test_pictures(random):
    x = random(2, 5, 4, 96)
    rows, columns = np.arange(9) * 5 // 9, np.arange(7) * 4 // 7
    near(pictures.resize_nearest(x, 9, 7), x[:, rows][:, :, columns], 0)
    x, gradient = np.round(random(128, 8, 8) * 2), random(128, 4, 4)
    padded, wanted = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf), np.zeros((128, 10, 10), np.float32)
    for plane in range(128):
        for a in range(4):
            for b in range(4):
                window = padded[plane, 2 * a : 2 * a + 3, 2 * b : 2 * b + 3]
                down, right = divmod(int(window.argmax()), 3)
                wanted[plane, 2 * a + down, 2 * b + right] += gradient[plane, a, b]
    near(pictures.select_and_scatter(x, gradient), wanted[:, 1:9, 1:9])


def test_the_axis_of_a_picture_has_few_round_times():
    for total in (0.3, 7.0, 1000.0, 12345.6, 9.99e8):
        times = display.ticks(total)
        assert 4 <= len(times) <= 11 and times[0] == 0 and times[-1] <= total * (1 + 1e-9) < times[-1] + times[1]
        assert f"{times[1]:e}"[0] in "125"


def quick(row):
    """Times, shares and bytes of A, B and C that record in about a second."""
    return row["unit"] != "no." and (row["group"] in ("A", "B") or row["name"].startswith(("C.2", "C.3", "C.4", "C.7", "C.8")))


@pytest.mark.parametrize("row", [row for row in ROWS if quick(row) and "kernel" in row["how"]], ids=lambda row: row["name"])
def test_the_model_is_near_published_times(row):
    assert abs(published.compare(row, KERNELS)["error"]) < 0.25


def page_values():
    """Our values as docs/accuracy.md has them, by chip, group and name."""
    found, chip = {}, ""
    for line in (FOLDER / "docs" / "accuracy.md").read_text().splitlines():
        if line.startswith("## "):
            chip = line[3:]
        cells = line.removeprefix("| ").split(" | ")
        if len(cells) > 6:
            found[f"{chip}/{cells[0]}"] = cells[4]
    return found


@pytest.mark.parametrize("row", [row for row in ROWS if "kernel" in row["how"] and (DEEP or quick(row))], ids=lambda row: f"{row['chip']} {row['name']}")
def test_the_page_of_accuracy_has_what_the_model_gives(row):
    shown = page_values()[f"{row['chip']}/{row['group']}/{row['name']}"]
    if row["kind"] == "held-out":
        assert shown == "held out"
    else:
        assert published.compare(row, KERNELS)["ours"] == pytest.approx(float(shown), rel=6e-4), "tilewright study accuracy -o docs/accuracy.md"


EXACT = ["silu read", "silu written", "adamw read", "adamw written", "rmsnorm_matmul written", "matmul_add_rmsnorm written", "matmul read", "matmul written"]


@pytest.mark.parametrize("name", EXACT)
def test_bytes_are_exact(name):
    (row,) = [row for row in ROWS if row["name"] == name]
    assert published.compare(row, KERNELS)["error"] == 0


@pytest.mark.parametrize("name", ["B.2 matmuls", "rmsnorm_matmul GFLOP", "matmul GFLOP", "silu GFLOP"])
def test_work_of_the_tensor_engine_is_counted_as_profiles_do(name):
    (row,) = [row for row in ROWS if row["name"] == name]
    found = published.compare(row, KERNELS)
    assert round(found["ours"], 2) == row["published"]


def test_a_number_that_is_published_as_zero():
    row = {**next(row for row in ROWS if row["name"] == "silu GFLOP"), "how": {**probe("duration activation"), "measure": "instructions scalar"}, "unit": "no."}
    assert published.compare(row, KERNELS)["error"] == 1


def test_transposes_are_no_useful_work(random):
    turned = tn.run(matmul.row_major, random(128, 128), random(128, 1024), chip="trainium1").timing
    macs = 128 * 128 * 1024
    assert turned["macs"] == macs + 128**3 and turned["matmuls"] == 2 * 3 and turned["matmul_flops"] == 4 * turned["macs"]
    assert turned["mfu"] * (macs + 128**3) == pytest.approx(turned["hfu"] * macs)
    halves = [ShapeOnly(shape, ml_dtypes.bfloat16) for shape in ((128, 128), (128, 512))]
    once = tn.run(probes.product, *halves, chip="trainium1", values=False).timing
    assert once["matmuls"] == 16 and once["matmul_flops"] == 2 * once["macs"] and once["mfu"] == once["hfu"]


def probe(measure, shape="128x128:bf16"):
    return {"kernel": "probes.py::through", "arguments": [shape], "measure": measure}


def test_measures_of_single_instructions():
    run = KERNELS.run("trainium2", probe("time"))
    (load, hot, store), ns = run.spans, 1e-9
    for measure, wanted in (
        ("start activation", hot[3]),
        ("arrival dma_copy", load[5]),
        ("whole dma_copy", load[5] - load[3]),
        ("gap dma_copy activation", hot[3] - load[5]),
        ("gap activation dma_copy", store[3] - hot[5]),
        ("duration activation", hot[5] - hot[3]),
        ("last duration dma_copy", store[4] - store[3]),
    ):
        assert published.measured(run, probe(measure)) == pytest.approx(wanted * ns), measure
    with pytest.raises(published.Usage, match="the kernel runs no iota"):
        published.measured(run, probe("gap dma_copy iota"))


def test_measures_of_descriptors_by_software(random):
    how = {"kernel": "probes.py::by_software", "arguments": ["128x128:bf16"]}
    run, ns = KERNELS.run("trainium2", how), 1e-9
    made, load, hot, _, store = run.spans
    assert (made[0], made[1], load[0], store[0]) == ("dma_descriptors", "gpsimd", "dma_copy", "dma_copy")
    for measure, wanted in (("gap dma_descriptors dma_copy", load[3] - made[5]), ("gap activation dma_copy", store[3] - hot[5])):
        assert published.measured(run, {**how, "measure": measure}) == pytest.approx(wanted * ns) and wanted > 740
    x = random(128, 128)
    near(tn.run(probes.by_software, x, chip="trainium2").outputs, np.exp(x))


def test_function_tables_are_loaded_while_operands_are_waited_for():
    import nki.isa as nisa
    import nki.language as nl

    x = ShapeOnly((128, 128), np.float32)
    load, first = tn.run(probes.through, x, chip="trainium2", values=False).spans[:2]
    table_ns = 1300
    assert first[3] > table_ns > first[3] - load[5]

    def two(x, other):
        out, tile = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm), nl.ndarray(x.shape, x.dtype)
        nisa.dma_copy(dst=tile, src=x)
        for function in (nl.exp, other):
            hot = nl.ndarray(x.shape, x.dtype)
            nisa.activation(dst=hot, op=function, data=tile)
        nisa.dma_copy(dst=out, src=hot)
        return out

    for other, waits in ((nl.exp, False), (nl.sqrt, True)):
        _, first, second, _ = tn.run(two, x, other, chip="trainium2", dialect="new", values=False).spans
        assert (second[3] - first[4] >= table_ns) == waits


def test_every_row_has_a_kernel_or_a_reason():
    names = [(row["chip"], row["group"], row["name"]) for row in ROWS]
    assert len(set(names)) == len(names)
    for row in ROWS:
        if row["chip"] == "tcp":
            continue  # of which the command line runs no kernel
        if "cannot" in row["how"]:
            assert row["how"]["cannot"]
        else:
            KERNELS.find(row["how"]["kernel"])


def test_the_command_prints_both_and_the_error():
    command = [sys.executable, "-m", "tilewright.nki.published", "--chip", "trainium1", "--group", "E"]
    text = subprocess.run(command, capture_output=True, text=True, cwd=FOLDER, check=True).stdout
    assert "TENSOR_TENSOR" in text and "not run" in text
    assert re.search(r"^calibration +2 .*%", text, re.M) and re.search(r"^held-out +0 +-", text, re.M)
    found = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, cwd=FOLDER, check=True).stdout)
    assert {"name", "published", "unit", "source", "kind"} <= found["rows"][0].keys()
    assert [entry["kind"] for entry in found["errors"]] == ["calibration", "development", "held-out"]
    wrong = subprocess.run([*command[:4], "tcp"], capture_output=True, text=True, cwd=FOLDER)
    assert wrong.returncode == 2 and "no such row" in wrong.stderr


def test_readings_of_a_run(random):
    result = tn.run(attention.fused, random(64, 512), random(64, 512), random(512, 64), chip="trainium1")
    found = result.json()
    assert json.loads(json.dumps(found))["bound_by"] in found["engines"]
    assert sum(share["time_s"] for share in found["critical_path"]) <= result.time * (1 + 1e-9)
    assert found["energy_j"]["tensor"] > 0 and found["energy_j"]["hbm"] > 0
    assert "attention.py" in found["critical_path"][0]["line"]
    assert [one["name"] for one in result.advice][:1] == ["FP32 products"]
    assert 0 < result.advice[0]["at_most_s"] < result.time
    assert result._repr_html_().startswith("<div><svg") and result.trace[:1]
    texts = re.findall(r"<text[^>]*>([^<]*)", result._repr_html_())
    busy = {name: float(texts[texts.index(name) + 1].rstrip("%")) / 100 for name in ("tensor", "dma")}
    for name, part in busy.items():
        assert abs(part - result.timing["engines"][name]["busy_s"] / result.time) < 0.006, name


def test_a_run_without_values_takes_the_same_time(random):
    arrays = random(256, 256), random(256, 1024)
    shapes = [ShapeOnly(array.shape, array.dtype) for array in arrays]
    with_values = tn.run(matmul.tiled, *arrays)
    without = tn.run(matmul.tiled, *shapes, values=False)
    assert without.outputs is None and without.time == with_values.time


def test_two_cores_share_the_work_and_hbm():
    import nki.isa as nisa
    import nki.language as nl

    def copy(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        cores = nl.num_programs(0) or 1
        rows = x.shape[0] // cores
        for start in range(nl.program_id(0) * rows, (nl.program_id(0) + 1) * rows, 128):
            tile = nl.ndarray((128, x.shape[1]), x.dtype)
            nisa.dma_copy(dst=tile, src=x[start : start + 128])
            nisa.dma_copy(dst=out[start : start + 128], src=tile)
        return out

    x = ShapeOnly((4096, 2048), np.float32)
    one = tn.run(copy, x, chip="trainium2", dialect="new", grid=1, values=False)
    two = tn.run(copy, x, chip="trainium2", dialect="new", grid=2, values=False)
    assert two.timing["cores"] == 2
    assert one.time / 2 <= two.time < one.time
    stack = 725e9
    assert sum(two.hbm_bytes) / two.time < stack


def test_a_trace_has_engines_and_arrows(random):
    from test_trace import refuse_unknown, trace_class

    result = tn.run(attention.fused, random(64, 512), random(64, 512), random(512, 64), chip="trainium1")
    trace = trace_class().FromString(result.trace)
    refuse_unknown(trace)
    names = {packet.track_descriptor.name for packet in trace.packet if packet.HasField("track_descriptor")}
    assert {"core0", "tensor", "vector", "scalar", "dma"} <= names
    flows = [flow for packet in trace.packet for flow in packet.track_event.flow_ids]
    assert flows and all(flows.count(flow) == 2 for flow in set(flows))


def test_a_ceiling_says_what_its_error_is_against():
    row = {"name": "x", "kind": "development", "published": 100.0, "unit": "us", "ours": 95.0, "error": 0.0, "what": "a test", "ceiling": True}
    assert published.line(row).endswith("+0.0%   a test (against 95% of a ceiling)")


def test_a_row_that_is_held_out_is_told_in_the_summary_only():
    rows = [{"name": str(at), "kind": kind, "published": 1.0, "unit": "us", "ours": 1 + error, "error": error, "what": "", "ceiling": False}
            for at, (kind, error) in enumerate([("development", 0.1), ("held-out", 0.4), ("held-out", -0.2), ("calibration", 0.0)])]
    assert "error" not in published.told(rows[1]) and "ours" not in published.told(rows[1]) and published.told(rows[0]) == rows[0]
    assert "40" not in published.line(rows[1]) and "held out" in published.line(rows[1])
    calibration, development, held_out = published.by_kind(rows)
    assert (held_out["rows"], held_out["worst"], "worst_row" in held_out) == (2, 0.4, False)
    assert held_out["median"] == pytest.approx(0.3)
    assert (calibration["rows"], development["worst_row"]) == (1, "0")
