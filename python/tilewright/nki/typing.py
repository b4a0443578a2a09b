"""`nki.typing`: annotations, and arguments of which only shape and type are known."""

from .kernel import ShapeOnly


class _Annotation:
    """Stands for a tensor: subscriptable with a dtype, then with a shape."""

    def __init__(self, dtype=None):
        self.dtype = dtype

    def __getitem__(self, key):
        if isinstance(key, tuple) and all(isinstance(size, int) for size in key):
            return ShapeOnly(key, self.dtype)
        if isinstance(key, int):
            return ShapeOnly((key,), self.dtype)
        return _Annotation(key)

    def __call__(self, *_args, **_options):
        return self


tensor = _Annotation()
mutable_tensor = _Annotation()
#: An argument that the kernel writes to: `mutable[tensor]`.
mutable = _Annotation()
scalar = _Annotation()
