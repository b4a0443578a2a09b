"""Sets that are test suites of their own: run by pytest in a process of its own, with our modules in place."""

import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Suite:
    """A test suite in a checkout."""

    need: str
    paths: tuple
    options: tuple = ()
    environment: tuple = ()
    #: Folders of the checkout on the module path.
    modules: tuple = (".",)


_LIBRARY = ("--noconftest", "-p", "library_plugin", "-m", "fast")


def _library(*paths):
    base = "test/integration/nkilib/"
    return Suite("library", tuple(base + path for path in paths), _LIBRARY, modules=(".", "src"))


_POOLS = (
    "test/unit/test_adaptive_avg_pool2d.py",
    "test/unit/test_rmsnorm_qkv.py",
    "test/unit/test_select_and_scatter.py",
)
_UNROUNDED = "nki/test/test_nki_isa_activation.py::TestNkiIsaExamplesActivation::test_activation"


SUITES = {
    # One test compares a result of bfloat16 as if it had never been rounded.
    "O2": [
        Suite("sdk", ("nki/test",), ("--deselect", _UNROUNDED)),
        Suite("sdk", (_UNROUNDED,), environment=(("NKI_PRECISE_FP", "0"),)),
    ],
    "O10": [Suite("samples", _POOLS, ("-m", "simulation"), modules=("src",))],
    "O12": [_library("core/cumsum")],
    "O13": [
        _library(
            "core/embeddings",
            "core/subkernels/test_rmsnorm_tkg.py",
            "core/subkernels/test_layernorm_tkg.py",
            "core/max",
        )
    ],
    "O14": [
        _library(
            "core/utils/test_cross_partition_copy.py",
            "core/utils/test_tensor_view.py",
            "core/utils/test_tp_broadcast.py",
            "core/subkernels/test_indexed_flatten.py",
            "experimental/dynamic_shapes",
        )
    ],
    "O15": [_library("experimental/conv/test_conv1d.py")],
    "O16": [
        _library("core/qkv/test_qkv_tkg.py", "core/mlp/test_mlp_tkg.py", "core/attention/test_attention_cte.py")
    ],
    "O17": [Suite("fft", ("tests/test_nki_sim.py",), environment=(("TRNFFT_USE_SIMULATOR", "1"),))],
}


def run_suite(suite, folder, limit_s, keep="", most=0):
    """(case, passed, seconds of the test, or of the processor in kernels where that is measured, reason) of each test that was not skipped; of at most so many, spread over all, if `most` is not 0."""
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "report.xml"
        modules = [str(HERE), *(str(folder / name) for name in suite.modules)]
        environment = dict(os.environ, **dict(suite.environment))
        environment["PYTHONPATH"] = os.pathsep.join(modules + [environment.get("PYTHONPATH", "")])
        # Some suites draw their cases from sets.
        environment["PYTHONHASHSEED"] = "0"
        # Threads of torch that wait must not count as time of a kernel.
        environment["OMP_WAIT_POLICY"] = "PASSIVE"
        environment["TILEWRIGHT_TEST_LIMIT_S"] = str(limit_s)
        environment["TILEWRIGHT_TESTS_AT_MOST"] = str(most)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tilewright.nki", "-p", "limit_plugin", "-p", "findings"]
        command += ["-p", "no:cacheprovider", "--tb=short", f"--junitxml={report}", *suite.options]
        command += ["-k", keep] if keep else []
        command += [str(folder / path) for path in suite.paths]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if not report.exists():
            lines = (done.stderr or done.stdout).strip().splitlines()
            return [("pytest", False, 0.0, lines[-1] if lines else f"exit code {done.returncode}")]
        return [case for case in map(_case, xml.etree.ElementTree.parse(report).iter("testcase")) if case]


def _case(node):
    if node.find("skipped") is not None:
        return None
    bad = next((node.find(kind) for kind in ("failure", "error") if node.find(kind) is not None), None)
    name = f"{node.get('classname', '').rsplit('.', 1)[-1]}::{node.get('name')}"
    reason = "" if bad is None else (bad.get("message") or bad.text or "").splitlines()[0][:300]
    own = [float(one.get("value")) for one in node.iter("property") if one.get("name") == "kernel_s"]
    return name, bad is None, own[0] if own else float(node.get("time", 0)), reason
