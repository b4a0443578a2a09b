"""`neuronxcc.nki.language.constants`."""

from ..language import sizeinbytes  # noqa: F401
