"""Kernels and results as values: copied, pickled, decorated again."""

import pickle

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import numpy as np
import pytest

ROWS = np.arange(64 * 8, dtype=np.float32).reshape(64, 8)


@nki.jit
def double(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(a), 2.0))
    return out


def test_profile_leaves_the_kernel_that_it_wraps_as_it_is(tmp_path):
    before = dict(double.__dict__)
    wrapped = nki.profile(working_directory=str(tmp_path), save_trace_name="p.pftrace")(double)
    assert double.__dict__ == before
    assert wrapped is not double and wrapped.option_save_trace_name == "p.pftrace"
    assert np.array_equal(double(ROWS), 2 * ROWS) and list(tmp_path.iterdir()) == []


def test_kernels_are_pickled_by_name_with_their_grid():
    back = pickle.loads(pickle.dumps(double))
    assert np.array_equal(back(ROWS), 2 * ROWS)
    gridded = pickle.loads(pickle.dumps(double[2]))
    assert gridded.grid == double[2].grid and gridded.func is double.func


def test_results_are_pickled_with_everything_they_say():
    result = double.run([ROWS], {})
    back = pickle.loads(pickle.dumps(result))
    assert np.array_equal(back.outputs, result.outputs)
    for name in ("time", "engines", "hbm_bytes", "findings", "spans", "critical_path", "advice", "energy", "trace", "program"):
        assert getattr(back, name) == getattr(result, name), name
    assert back.summary() == result.summary() and back.json() == result.json()
    again = pickle.loads(pickle.dumps(back))
    assert again.time == result.time
    with pytest.raises(AttributeError, match="a result that was pickled does not know `made_at`"):
        back.made_at(result)


def refused(body):
    """The refusal of a kernel whose body is given."""

    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        body(a, tile)
        nl.store(out, tile)
        return out

    try:
        kernel(ROWS)
    except Exception as error:
        return error
    return None


def test_operands_of_wrong_types_are_refused_with_a_code_and_the_line():
    bodies = {
        "text for a number": lambda a, tile: nl.add(tile, "x"),
        "a list for a number": lambda a, tile: nl.add(tile, [1, 2]),
        "nothing to store": lambda a, tile: nl.store(a, None),
        "a size beyond 64 bits": lambda a, tile: nl.ndarray((2**70, 4), nl.float32, buffer=nl.hbm),
        "a range beyond 64 bits": lambda a, tile: nl.arange(2**70),
        "text for an axis": lambda a, tile: nl.sum(tile, axis="x"),
        "text for a shape": lambda a, tile: tile.reshape("x"),
        "shapes that do not fit": lambda a, tile: nl.add(tile, nl.load(a[0:64, 0:4])),
    }
    for what, body in bodies.items():
        error = refused(body)
        assert getattr(error, "code", None) == "neuron/operand", (what, error)
        assert "test_nki_kernels_as_objects.py:" in error.line and error.allowed and error.instead, what
    assert isinstance(refused(bodies["text for a number"]), TypeError)
    assert isinstance(refused(bodies["shapes that do not fit"]), ValueError)
    # What the kernel raises itself stays as it is.
    assert type(refused(lambda a, tile: int("x"))) is ValueError
