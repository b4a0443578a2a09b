"""`nki.tensor`: the class of tensors, for annotations."""

from tilewright._core import Tensor  # noqa: F401

NkiTensor = Tensor
