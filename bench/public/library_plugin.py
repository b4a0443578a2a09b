"""A pytest plugin for the tests of nki-library: kernels run here instead of on a device.

Stands for the library's own conftest, which compiles for devices and copies files to them. The tests hand a kernel, its
inputs and a reference to `test_manager.execute`; that is all of it that is needed.
"""

import importlib.abc
import importlib.machinery
import random
import sys
import time
import types
import unittest.mock

import limit_plugin
import numpy as np
import pytest

#: What the library's helpers import for reports and remote hosts.
_ABSENT = ("boto3", "botocore", "aws_embedded_metrics", "fabric2", "plotext", "pandas", "filelock", "allpairspy", "pytest_html", "yaml", "paramiko", "invoke")


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of which nothing is needed; the last to be asked, so that real ones come first."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in _ABSENT:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = unittest.mock.MagicMock(name=spec.name)
        module.__path__, module.__spec__ = [], spec
        return module

    def exec_module(self, module):
        pass


sys.meta_path.append(_Absent())

# What compiles for devices and copies files to them is replaced as a whole.
_orchestrator = types.ModuleType("test.utils.test_orchestrator")
sys.modules[_orchestrator.__name__] = _orchestrator


def _arrays(value):
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


#: Findings of kernels that leave a part of an output as it was, or copy memory that nobody wrote to it.
_UNWRITTEN = ("neuron/never-written", "neuron/uninitialised")


def _close(found, wanted, args, unwritten):
    """The library's measure: the difference against the largest magnitude of the reference. Where nobody wrote what outputs hold, references have
    the zeros that buffers of the library begin with, and we have what stands for nothing: 4 in integers, NaN in floats."""
    found, wanted = np.asarray(found, np.float32), np.asarray(wanted, np.float32)
    if found.shape != wanted.shape:
        found = found.reshape(wanted.shape)
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    if unwritten:
        same |= (wanted == 0) & ((found == 4) | np.isnan(found))
    largest = np.nanmax(np.abs(wanted), initial=0.0, where=np.isfinite(wanted))
    with np.errstate(invalid="ignore"):
        near = np.abs(found - wanted) <= args.absolute_accuracy + args.relative_accuracy * largest
    return bool(np.all(same | near)), float(np.nanmax(np.where(same, 0, np.abs(found - wanted)), initial=0.0)), float(largest)


def _comparable(array):
    """Packed types as what they hold."""
    from tilewright.nki import mx  # packed types

    return mx.unpacked(np.asarray(array))


class Manager:
    """Runs what a test hands over and compares it with its reference."""

    def __init__(self, record=lambda name, value: None):
        self.record, self.unwritten = record, False

    def execute(self, test):
        """One kernel."""
        import tilewright.nki as tilewright_nki
        from test.utils.common_dataclasses import PerRankLazyInputGenerator

        platform = str(test.compiler_input.platform_target.get_compile_target())
        inputs = test.kernel_input or {}
        ranks = test.inference_args.collective_ranks
        of_rank = inputs.for_rank if isinstance(inputs, PerRankLazyInputGenerator) else lambda rank: inputs
        kernel = test.kernel_func
        if not isinstance(kernel, tilewright_nki.Kernel):
            kernel = tilewright_nki.Kernel(kernel, "new")
        cores = test.compiler_input.logical_nc_config
        kernel = kernel[cores] if cores > 1 else kernel

        def arguments(rank):
            given = of_rank(rank)
            return {name.removesuffix(".must_alias_input"): value for name, value in given.items()}

        given = [arguments(rank) for rank in range(ranks)]
        # The library's own inputs and references take what they take.
        start = time.process_time()
        with limit_plugin.limited(limit_plugin.LIMIT_S):
            results = tilewright_nki.run_ranks(kernel, given, chip=platform) if ranks > 1 else [kernel.run((), given[0], platform)]
            outputs = [result.outputs for result in results]
        self.record("kernel_s", f"{time.process_time() - start:.2f}")
        self.unwritten = any(one["code"] in _UNWRITTEN for one in results[0].findings)
        self.compare(test, outputs)

    def compare(self, test, outputs):
        """Every rank that has a reference."""
        from test.utils.common_dataclasses import LazyGoldenGenerator, PerRankLazyGoldenGenerator

        args = test.validation_args
        if args is None:
            return
        golden = args.golden_output
        if isinstance(golden, LazyGoldenGenerator):
            if golden.golden is None:
                return
            wanted = [golden.golden]
        elif isinstance(golden, PerRankLazyGoldenGenerator):
            wanted = [golden.for_rank(rank) for rank in range(len(outputs))]
        else:
            wanted = [golden]
        for rank, (given, reference) in enumerate(zip(outputs, wanted)):
            found = _arrays(given)
            assert len(found) >= len(reference), f"{len(found)} outputs, {len(reference)} references"
            # Some outputs have no reference; the test says how all of them are called, or those come last.
            names = list(golden.output_ndarray) if isinstance(golden, LazyGoldenGenerator) else []
            names = names if len(names) == len(found) and set(reference) <= set(names) else list(reference)
            for name, array in zip(names, found):
                if name in reference:
                    self.compare_one(f"rank {rank} {name}", array, reference[name], args)

    def compare_one(self, name, array, wanted, args):
        """One output."""
        if hasattr(wanted, "validator"):
            given = np.asarray(array).view(wanted.dtype) if np.asarray(array).dtype.itemsize == wanted.dtype.itemsize else np.asarray(array)
            assert wanted.validator(None).validate(given.reshape(wanted.output_ndarray.shape)), f"{name}: refused by its validator"
            return
        array, wanted = np.asarray(array), np.asarray(wanted)
        if array.dtype.names != wanted.dtype.names and array.dtype.itemsize == wanted.dtype.itemsize:
            # The reference has words for packed elements.
            wanted = np.ascontiguousarray(wanted).view(array.dtype)
        close, difference, largest = _close(_comparable(array), _comparable(wanted), args, self.unwritten)
        assert close, f"{name}: differs by {difference} where the largest magnitude is {largest}"

    def get_test_artifact_output_path(self):
        """Nothing is written."""
        return "/dev/null"


_orchestrator.Orchestrator = Manager


#: Rows of queries whose scores the reference of attention holds at once. All 32,768 rows of the longest cases would take 17 GB.
_QUERY_ROWS = 2048


def _in_rows(reference):
    """The library's reference of attention, for some rows of queries at a time: it takes their first position as `cp_offset`."""
    import torch

    def rows_of(queries, tp_q, begin):
        return queries.narrow(1 if tp_q else 2, begin, min(_QUERY_ROWS, queries.shape[1 if tp_q else 2] - begin))

    def blocks(**given):
        total = given["q"].shape[1 if given["tp_q"] else 2]
        if total <= _QUERY_ROWS or given.get("bound_min") is not None:
            return reference(**given)
        offset = given.get("cp_offset")
        first, step = 0 if offset is None else int(offset.item()), given["global_cp_deg"] if given["cp_strided_q_slicing"] else 1
        parts = []
        for begin in range(0, total, _QUERY_ROWS):
            part = dict(given, q=rows_of(given["q"], given["tp_q"], begin), cp_offset=torch.tensor([[first + begin * step]]))
            parts.append(reference(**part))
        if not given["cache_softmax"]:
            return torch.cat(parts, 2 if given["tp_out"] else 1)
        outputs, largest, sums = zip(*parts)
        return torch.cat(outputs, 2 if given["tp_out"] else 1), torch.cat(largest, 2), torch.cat(sums, 2)

    return blocks


def pytest_collection_modifyitems(items):
    """References that would take more memory than a laptop has are computed in parts."""
    for module in {item.module for item in items}:
        if hasattr(module, "attention_cte_torch_ref"):
            module.attention_cte_torch_ref = _in_rows(module.attention_cte_torch_ref)


@pytest.fixture
def test_manager(record_property):
    """What runs kernels."""
    return Manager(record_property)


@pytest.fixture
def platform_target(request):
    """The second platform, unless the test is not meant for it."""
    from test.utils.common_dataclasses import Platforms

    mark = request.node.get_closest_marker("platforms")
    excluded = mark.kwargs.get("exclude", []) if mark else []
    return Platforms.TRN3 if Platforms.TRN2 in excluded else Platforms.TRN2


def _range_cases(metafunc):
    """Cases of tests that describe ranges; drawn from the same seed each time."""
    from test.utils.ranged_test_harness import RangeTestHarness

    limit = getattr(metafunc.function, "limit_num_of_tests", None)
    state = random.getstate()
    random.seed(0)
    try:
        options = {} if limit is None else {"limit_num_of_tests": limit}
        ids, cases = RangeTestHarness(metafunc.function.range_test_config, **options).get_unique_test_cases()
    finally:
        random.setstate(state)
    metafunc.parametrize("range_test_options", cases, ids=ids)


def pytest_generate_tests(metafunc):
    """Cases of tests that describe their parameters."""
    if "range_test_options" in metafunc.fixturenames:
        _range_cases(metafunc)
        return
    mark = metafunc.definition.get_closest_marker("coverage_parametrize")
    if mark is None:
        return
    from test.utils.coverage_parametrized_tests import extract_parametrize_args, generate_parametrized_test_case

    params = dict(mark.kwargs)
    filter_func = params.pop("filter", None)
    options = {
        name: params.pop(name)
        for name in (
            "enable_automatic_boundary_tests",
            "enable_invalid_combination_tests",
            "n_tests_per_boundary_value",
            "max_invalid_tests",
        )
        if name in params
    }
    coverage = params.pop("coverage", "singles")
    fast = metafunc.definition.get_closest_marker("fast") is not None
    cases = generate_parametrized_test_case(
        params=params, coverage=coverage if fast else "singles", filter_func=filter_func, **options
    )
    names, values, ids = extract_parametrize_args(params, cases)
    metafunc.parametrize(names, values, ids=ids)


@pytest.fixture
def collector():
    """Nothing is measured."""
    return unittest.mock.MagicMock()


def pytest_configure(config):
    """Marks that the library's own configuration makes up."""
    config.option.strict_markers = False
