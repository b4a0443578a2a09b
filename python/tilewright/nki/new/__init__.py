"""`nki`: the dialect whose instructions take their destination (NKI 0.2 and later)."""

import os as _os

from .. import kernel as _kernel

jit = _kernel.decorator("new")
simulate = _kernel.simulate
simulate_kernel = _kernel.simulate_kernel
benchmark = _kernel.benchmark
baremetal = _kernel.decorator("new", mode="baremetal")
trace = _kernel.decorator("new", mode="trace")
profile = _kernel.decorator("new", mode="profile")
__version__ = "0.6.0"
