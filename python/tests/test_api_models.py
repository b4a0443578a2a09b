"""Models compiled and generating without leaving Python."""

import numpy as np
import pytest

import tilewright
from tilewright import Refused, simulate


@pytest.fixture(scope="module")
def fables():
    with tilewright.compile("models/fables", context=64) as model:
        yield model


def test_a_model_writes_as_the_command_does(fables):
    import json
    import subprocess
    import sys

    told = fables.generate("Once there was a", max_tokens=8)
    again = fables.generate("Once there was a", max_tokens=8)
    assert told.data == again.data and len(told.tokens) == 8
    command = [sys.executable, "-m", "tilewright.command", "run", "models/fables", "--prompt", "Once there was a", "--max-tokens", "8", "--context", "64", "--json"]
    printed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert told.data == printed


def test_text_is_told_as_it_comes_and_a_listener_that_fails_ends_it(fables):
    heard = []
    told = fables.generate("The fox", max_tokens=4, on_text=heard.append)
    assert heard[-1] == told.text and len(heard) == 4

    def fail(_):
        raise ValueError("enough")

    assert len(fables.generate("The fox", max_tokens=4, on_text=fail).tokens) == 1


def test_names_are_read_as_the_command_reads_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with tilewright.compile("fables", context=64) as model:
        assert len(model.generate("A", max_tokens=2).tokens) == 2
    with pytest.raises(Refused, match="neither a file nor a folder `fabels`") as refused:
        tilewright.compile("fabels")
    assert refused.value.instead == "fables"
    (tmp_path / "cut.graph").write_text("graph 1\ninput x: f32[4\n")
    with pytest.raises(Refused, match="cut.graph:3"):
        tilewright.compile("cut.graph")


@pytest.mark.parametrize(
    "call",
    ["compile('llama2-7b', dtype='int8', pes=8, effort=60)", "study('llama2-7b', brief=False)"],
)
def test_an_interrupt_ends_the_call_and_then_its_work(call):
    """The call ends at once; what it left behind ends before its next program, where it went on for minutes."""
    import signal
    import subprocess
    import sys
    import time

    script = f"""
import time, tilewright
print('go', flush=True)
try:
    tilewright.{call}
except KeyboardInterrupt:
    print('interrupted', flush=True)
until = time.monotonic() + 180
while time.monotonic() < until:
    before = time.process_time()
    time.sleep(1)
    if time.process_time() - before < 0.02:
        print('idle', flush=True)
        break
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "go\n"
        time.sleep(1.5)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - sent < 10
        assert process.stdout.readline() == "idle\n"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "call",
    [
        "simulate('kernels/attention.tcp')",
        "generate('models/fables', 'A', max_tokens=200)",
        "sweep({'einsum': 'mk,kn->mn', 'dims': {'m': list(range(1, 400)), 'k': 64, 'n': 64}}, engine='serial')",
        "sweep({'einsum': 'mk,kn->mn', 'dims': {'m': list(range(1, 4000)), 'k': 64, 'n': 64}}, engine='local', workers=2)",
    ],
)
def test_an_interrupt_is_raised_whatever_runs(call):
    import signal
    import subprocess
    import sys
    import time

    script = f"import tilewright\nif __name__ == '__main__':\n    print('go', flush=True)\n    while True:\n        tilewright.{call}"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "go\n"
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=30)
        assert "KeyboardInterrupt" in words, words
    finally:
        process.kill()
        process.wait()


def test_other_threads_run_while_a_model_generates(fables):
    import threading
    import time

    fables.generate("A", max_tokens=1)
    seen, longest, worker = 0, 0.0, threading.Thread(target=lambda: fables.generate("Once there was a", max_tokens=40))
    worker.start()
    while worker.is_alive():
        before = time.perf_counter()
        time.sleep(0.001)
        longest, seen = max(longest, time.perf_counter() - before), seen + 1
    worker.join()
    assert seen > 10 and longest < 0.5, f"{seen} looks, {longest} s without the lock"


def test_programs_are_there_to_be_looked_at(fables):
    assert set(fables.programs) == {"clear", "prefill", "decode"}
    assert fables.programs["decode"].machine.name == "tcp" and fables.data["dtype"] == "bf16"


def test_traces_and_tables_of_the_last_token(fables, tmp_path):
    told = fables.generate("A", max_tokens=2)
    assert told.trace.save(tmp_path / "a.pftrace").stat().st_size > 1000
    assert "<!doctype html>" in told.save_page(tmp_path / "a.html").read_text()
    assert told._repr_html_().count("<tr>") > 3


def page_data(text):
    """The runs that a page holds."""
    import json
    import re

    return json.loads(re.search(r'<script type="application/json" id="runs">(.*?)</script>', text, re.S)[1])["runs"]


def numbers(column):
    """A column of numbers: seven bits a byte, the least first."""
    import base64

    found, value, shift = [], 0, 0
    for byte in base64.b64decode(column):
        value, shift = value | (byte & 127) << shift, shift + 7
        if byte < 128:
            found.append(value)
            value, shift = 0, 0
    return found


def busy_by_kernel(run):
    """Busy cycles of main and sub contexts and DMA queues by kernel, from the columns of a page."""
    kernels = numbers(run["graph"]["kernel_of_command"])
    owners = iter([kernel for count, kernel in zip(kernels[::2], kernels[1::2]) for _ in range(count)])
    busy = [{"main": 0, "sub": 0, "dma": 0} for _ in range(1 + len(run["graph"]["kernels"]))]
    for lane in run["lanes"]:
        track = run["tracks"][lane["track"]]["name"]
        columns = numbers(lane["data"])
        for length, kernel in zip(columns[1::6], owners):
            if track in busy[kernel]:
                busy[kernel][track] += length
    assert next(owners, None) is None
    return busy


def test_the_page_of_a_model_has_the_time_of_each_kernel(fables, tmp_path):
    """Beside the closed forms that `--emit lowered` prints of each kernel; transfers share HBM, and take no less."""
    import re
    import subprocess
    import sys

    command = [sys.executable, "-m", "tilewright.command"]
    page = tmp_path / "fables.html"
    subprocess.run([*command, "compile", "models/fables", "--effort", "0", "--html", str(page)], check=True, capture_output=True)
    run = page_data(page.read_text())[1]
    printed = subprocess.run([*command, "compile", "models/fables", "--effort", "0", "--emit", "lowered", "--program", "decode"], check=True, capture_output=True, text=True).stdout
    stated = [tuple(map(int, one)) for one in re.findall(r"main (\d+) sub (\d+) dma (\d+)", printed)]
    none, *busy = busy_by_kernel(run)
    assert len(busy) == len(stated) == 39 and none["main"] == none["sub"] == 0
    for (main, sub, dma), found, kernel in zip(stated, busy, run["graph"]["kernels"]):
        assert (found["main"], found["sub"]) == (pytest.approx(main, rel=0.05), pytest.approx(sub, rel=0.05)), kernel
        assert found["dma"] >= 0.95 * dma, kernel
        assert kernel["node"] is not None


def test_the_page_of_a_generation_has_its_prompt_and_its_last_token(fables, tmp_path):
    told = fables.generate("Once there was a", max_tokens=3)
    first, last = page_data(told.save_page(tmp_path / "told.html").read_text())
    assert first["name"].endswith("a prompt of 5 tokens") and last["name"].endswith("a token behind 6")
    assert last["ticks"] < first["ticks"] and first["graph"]["nodes"] == last["graph"]["nodes"]
    operators = [node["operator"] for node in last["graph"]["nodes"]]
    assert "attention" in operators and sum(one["main"] for one in busy_by_kernel(last)[1:]) > 0


@pytest.mark.parametrize("program", ["kernels/attention.tcp", "kernels/rope.tcp", "tests/neuron/matmul.neuron"])
def test_power_by_component_over_time_adds_up_to_the_energy(program, tmp_path):
    run = simulate(program)
    (shown,) = page_data(run.save_page(tmp_path / "run.html").read_text())
    parts = len(shown["power"][0]["milliwatts"])
    seconds = shown["ticks"] / shown["ticks_per_s"] / parts
    joules = {one["name"]: sum(one["milliwatts"]) * seconds * 1e-3 for one in shown["power"]}
    used = {name: value for name, value in run.energy.items() if value}
    assert set(joules) == set(used) and all(joules[name] == pytest.approx(value, rel=1e-3) for name, value in used.items())
    moving = [one["name"] for one in shown["power"] if max(one["milliwatts"]) > 1.01 * min(one["milliwatts"])]
    assert len(moving) >= 2, "what commands take changes over time"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: tilewright.compile("no/such/model"), "model/unreadable"),
        (lambda: tilewright.compile("models/fables", dtype="int7"), "compile/dtype"),
        (lambda: tilewright.compile("models/fables", pes=3), "compile/count"),
        (lambda: tilewright.compile("models/fables", context=10**6), "compile/context"),
        (lambda: tilewright.compile("models/fables", "trainium1"), "compile/machine"),
        (lambda: tilewright.compile("models/fables", cache="f32"), "compile/cache"),
        (lambda: tilewright.compile(3), "python/type"),
    ],
)
def test_refusals_have_codes_and_a_way_out(call, code):
    with pytest.raises(Refused) as refused:
        call()
    assert refused.value.code == code and refused.value.asked and refused.value.allowed


def test_a_closed_device_says_so():
    model = tilewright.compile("models/fables", context=64)
    model.close()
    with pytest.raises(Refused) as refused:
        model.generate("x")
    assert refused.value.code == "model/closed" and refused.value.instead


def test_programs_that_name_arrays_take_them_from_python():
    program = tilewright.Program.load("kernels/softmax.tcp")
    name, (_, dtype, extents) = next((name, one) for name, one in program.tensors.items() if one[0] == "input")
    carrier = {"i8": np.int8, "i32": np.int32, "f32": np.float32}.get(dtype)
    if carrier is None:
        pytest.skip(f"{dtype} is covered elsewhere")
    zeros = simulate(program, {name: np.zeros(extents, carrier)})
    assert zeros.values.keys() == simulate(program).values.keys()
