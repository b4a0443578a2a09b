"""Arrays of other libraries go in and come out; the tests of a library that is not installed are skipped."""

import warnings

import ml_dtypes
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from tilewright.nki import kernel, run


@nki.jit
def add(a, b):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) + nl.load(b))
    return out


@nki.jit
def same(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out


@nki.jit
def twice(a, rows):
    """2 a; the number says nothing."""
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) * 2.0)
    return out


@nki.jit
def double_in_place(a):
    nl.store(a, nl.load(a) * 2.0)


def values(dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal((64, 32)).astype(dtype)


class Lent:
    """An array of a library that nobody knows, which lends its memory."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Converted:
    """An array that only converts itself."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __array__(self, dtype=None, copy=None):
        return self.array


@pytest.mark.parametrize("kind", [Lent, Converted])
def test_arrays_of_unknown_libraries(kind):
    a, b = values(), values(seed=1)
    assert np.array_equal(add(kind(a), kind(b)), a + b)


def test_arrays_that_no_device_has_are_narrowed():
    a, b = values(np.float64), values(np.float64, 1)
    found = add(a, b)
    assert found.dtype == np.float32 and np.allclose(found, a + b, atol=1e-6)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn])
def test_narrow_floats(dtype):
    a = np.ones((8, 8), dtype)
    assert np.array_equal(add(a, a).astype(np.float32), np.full((8, 8), 2.0))


def test_an_argument_that_is_written_to_changes():
    a = values()
    before = a.copy()
    double_in_place(a)
    assert np.array_equal(a, before * 2)


@nki.jit
def move(a, b):
    """Writes one argument and then reads the other."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(b, nl.add(nl.load(a), 1.0))
    nl.store(out, nl.load(a))
    return out


def test_an_argument_that_is_written_to_shares_no_memory_with_another():
    whole = np.arange(96, dtype=np.float32)
    first, second = whole[:64].reshape(8, 8), whole[32:].reshape(8, 8)
    for a, b in ((first, first), (first, second), (first, first[:, ::-1])):
        before = whole.copy()
        with pytest.raises(ValueError, match="writes to its argument b, which shares memory with its argument a, and a device has a tensor for each: pass a copy"):
            move(a, b)
        assert np.array_equal(whole, before)
    assert np.array_equal(move(first, second.copy()), first)
    # Columns between one another have no byte in common.
    assert np.array_equal(move(first[:, ::2], first[:, 1::2]), first[:, ::2])


def test_arrays_of_no_numbers_are_named():
    with pytest.raises(TypeError, match="no element type of the device is called object"):
        add(np.array([[None, 1]]), np.array([[None, 1]]))


class TestJax:
    @pytest.fixture(autouse=True)
    def installed(self):
        type(self).jax = pytest.importorskip("jax", reason="jax is not installed")

    def test_arrays_come_out_as_they_went_in(self):
        a, b = (self.jax.numpy.asarray(values(seed=seed)) for seed in range(2))
        found = add(a, b)
        assert isinstance(found, self.jax.Array) and np.allclose(found, a + b, atol=1e-6)

    def test_bfloat16(self):
        a = self.jax.numpy.asarray(values(), self.jax.numpy.bfloat16)
        found = add(a, a)
        assert found.dtype == a.dtype and np.array_equal(np.asarray(found), np.asarray(a + a))

    def test_inside_a_jitted_function(self):
        @self.jax.jit
        def function(a, b):
            return add(a * 2, b) + 1

        a, b = values(), values(seed=1)
        assert np.allclose(function(a, b), a * 2 + b + 1, atol=1e-5)
        assert np.allclose(function(b, a), b * 2 + a + 1, atol=1e-5)

    def test_an_array_that_never_changes_is_not_written_to_silently(self):
        with pytest.raises(ValueError, match="writes to its argument a, an array of jaxlib that cannot be changed: return a tensor instead, or pass a NumPy array"):
            double_in_place(self.jax.numpy.ones((8, 8)))

    def test_a_jitted_call_is_told_once_and_may_give_numbers(self, monkeypatch):
        def both(a):
            return {"sum": add.func(a, a), "rows": a.shape[0]}

        told = []
        monkeypatch.setattr(kernel, "listeners", [told.append])
        found = self.jax.jit(lambda a: nki.jit(both)(a))(values())
        assert np.array_equal(found["sum"], values() * 2) and found["rows"] == 64
        assert [np.array_equal(one.outputs["sum"], values() * 2) for one in told] == [True]

    def test_a_gradient_that_nobody_gave_is_named(self):
        plain = nki.jit(add.func)
        with pytest.raises(TypeError, match=r"the kernel add has no gradient: register one with add\.register_gradient"):
            self.jax.grad(lambda a: plain(a, a).sum())(self.jax.numpy.ones((8, 8)))

    def test_a_registered_gradient_is_used(self):
        scaled = nki.jit(twice.func)
        scaled.register_gradient(lambda args, outputs, gradients: (2 * gradients, None))
        a = self.jax.numpy.asarray(values())
        found = self.jax.grad(lambda a: (scaled(a, 3) ** 2).sum())(a)
        assert np.allclose(found, 8 * a, atol=1e-4)

    def test_inside_a_loop_on_the_device(self):
        def step(carry, x):
            return add(carry, x), None

        rows = np.stack([values(seed=seed) for seed in range(3)])
        found, _ = self.jax.lax.scan(step, rows[0] * 0, rows)
        assert np.allclose(found, rows.sum(0), atol=1e-5)


class TestTorch:
    @pytest.fixture(autouse=True)
    def installed(self):
        type(self).torch = pytest.importorskip("torch", reason="torch is not installed")

    def test_tensors_come_out_as_they_went_in(self):
        a, b = (self.torch.from_numpy(values(seed=seed)) for seed in range(2))
        found = add(a, b)
        assert isinstance(found, self.torch.Tensor) and self.torch.allclose(found, a + b, atol=1e-6)

    @pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e4m3fn"])
    def test_narrow_floats(self, name):
        a = self.torch.ones(8, 8).to(getattr(self.torch, name))
        found = add(a, a)
        assert found.dtype == a.dtype and found.float().eq(2).all()

    def test_a_tensor_that_is_written_to_changes(self):
        a = self.torch.ones(8, 8)
        double_in_place(a)
        assert a.eq(2).all()

    @pytest.mark.parametrize("name", ["uint16", "uint32"])
    def test_unsigned_integers_stay_unsigned(self, name):
        a = self.torch.from_numpy(np.full((8, 8), 65535 if name == "uint16" else 2**32 - 1, name))
        found = same(a)
        assert found.dtype == a.dtype and np.array_equal(found.numpy(), a.numpy())

    def test_inside_a_compiled_function(self):
        pytest.importorskip("jax", reason="what is asked of it must not stop torch")
        compiled = self.torch.compile(lambda a: add(a, a) + 1, backend="eager")
        assert compiled(self.torch.ones(8, 8)).eq(3).all()

    def test_a_tensor_with_gradient_is_taken_as_it_is(self):
        a = self.torch.ones(8, 8, requires_grad=True)
        assert run(add, a, a).outputs.eq(2).all()

    def test_a_result_without_gradient_is_told(self):
        a = self.torch.ones(8, 8, requires_grad=True)
        with pytest.warns(UserWarning, match=r"the kernel add has no gradient: register one with add\.register_gradient"):
            assert not add(a, a).requires_grad
        with warnings.catch_warnings(), self.torch.no_grad():
            warnings.simplefilter("error")
            add(a, a)

    def test_a_registered_gradient_is_used(self):
        scaled = nki.jit(twice.func)
        scaled.register_gradient(lambda args, outputs, gradients: (2 * gradients, None))
        a = self.torch.from_numpy(values()).requires_grad_()
        (scaled(a, 3) ** 2).sum().backward()
        assert self.torch.allclose(a.grad, 8 * a.detach(), atol=1e-4)
        scaled.register_gradient(lambda args, outputs, gradients: gradients)
        with pytest.raises(ValueError, match="returns 1 values for 2 positional arguments: one for each, None for those without"):
            scaled(a, 3).sum().backward()

    @pytest.mark.parametrize("name", ["float32", "bfloat16", "int32"])
    def test_meta_tensors_give_shapes(self, name):
        a = self.torch.empty(64, 32, device="meta", dtype=getattr(self.torch, name))
        found = add(a, a)
        assert found.device.type == "meta" and tuple(found.shape) == (64, 32) and found.dtype == a.dtype
