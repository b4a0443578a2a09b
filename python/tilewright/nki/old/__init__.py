"""`neuronxcc.nki`: the dialect whose instructions return tiles (NKI 0.1)."""

from .. import kernel as _kernel

jit = _kernel.decorator("old")
trace = _kernel.decorator("old", mode="trace")
baremetal = _kernel.decorator("old", mode="baremetal")
profile = _kernel.decorator("old", mode="profile")
benchmark = _kernel.benchmark
simulate_kernel = _kernel.simulate_kernel
nki_jit = jit
