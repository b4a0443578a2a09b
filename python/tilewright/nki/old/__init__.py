"""`neuronxcc.nki`: the dialect whose instructions return tiles (NKI 0.1)."""

import logging as _logging

from .. import kernel as _kernel
from ..typing import tensor  # noqa: F401  an annotation that older kernels take from here

# Course material asks for a level that the vendor's package adds.
if not hasattr(_logging, "OFF"):
    _logging.OFF = _logging.CRITICAL + 10

jit = _kernel.decorator("old")
trace = _kernel.decorator("old", mode="trace")
baremetal = _kernel.decorator("old", mode="baremetal")
profile = _kernel.decorator("old", mode="profile")
benchmark = _kernel.benchmark
simulate_kernel = _kernel.simulate_kernel
nki_jit = jit
