"""Transfers, meetings of cores, and collectives of one rank."""

import nki.collectives as ncoll
import nki.isa as nisa
import nki.language as nl
import numpy as np

from .harness import BF16, F32, I32, WIDTHS, Mode, case

ROWS = {"a": (128, 1024)}
OUT = {"out": (128, 1024)}
HBM = {"out_memories": {"out": "shared_hbm"}}


@case("dma", "dma_copy from HBM", ROWS, OUT, lambda a: a, modes=WIDTHS, in_hbm=("a",))
def _(t):
    nisa.dma_copy(t.out, t.a)


@case("dma", "dma_copy to HBM", ROWS, OUT, lambda a: a, modes=WIDTHS, **HBM)
def _(t):
    nisa.dma_copy(t.out, t.a)


@case("dma", "dma_copy between HBM tensors", ROWS, OUT, lambda a: a, modes=WIDTHS, in_hbm=("a",), **HBM)
def _(t):
    nisa.dma_copy(t.out, t.a)


@case("dma", "dma_copy that casts", ROWS, OUT, lambda a: a, in_hbm=("a",), out_dtypes={"out": BF16})
def _(t):
    nisa.dma_copy(t.out, t.a)


@case("dma", "dma_copy of every second element", {"a": (128, 2048)}, OUT, lambda a: a[:, ::2], in_hbm=("a",), modes=WIDTHS)
def _(t):
    nisa.dma_copy(t.out, t.a[:, 0:2048:2])


@case("dma", "dma_copy of one row to one partition", {"a": (1, 1024)}, {"out": (1, 1024)}, lambda a: a, in_hbm=("a",))
def _(t):
    nisa.dma_copy(t.out, t.a)


_ORDER = np.random.default_rng(4).permutation(256)[:128].reshape(128, 1)


@case("dma", "dma_copy that gathers rows", {"a": (256, 1024), "i": (128, 1)}, OUT, lambda a, i: a[i[:, 0]], in_hbm=("a",), dtypes={"i": I32}, values={"i": _ORDER})
def _(t):
    nisa.dma_copy(t.out, t.a.ap([[1024, 128], [1, 1024]], 0, vector_offset=t.i, indirect_dim=0))


@case("dma", "dma_copy from a row that a tile names", {"a": (256, 1024), "i": (1, 1)}, OUT, lambda a, i: a[64:192], in_hbm=("a",), dtypes={"i": I32}, values={"i": [[64]]})
def _(t):
    nisa.dma_copy(t.out, t.a.ap([[1024, 128], [1, 1024]], 0, scalar_offset=t.i, indirect_dim=0))


for _mode, _since in (("none", 2), ("swdge", 2), ("hwdge", 3)):

    @case("dma", f"dma_copy with {_mode}", ROWS, OUT, lambda a: a, in_hbm=("a",), since=_since)
    def _(t, mode=_mode):
        nisa.dma_copy(t.out, t.a, dge_mode=getattr(nisa.dge_mode, mode))


@case("dma", "dma_copy with hwdge of Scalar", ROWS, OUT, lambda a: a, in_hbm=("a",), since=3)
def _(t):
    nisa.dma_copy(t.out, t.a, dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.scalar)


@case("dma", "dma_copy that adds", ROWS, OUT, lambda a: a + 1.0)
def _(t):
    nisa.memset(t.out, 1.0)
    nisa.dma_copy(t.out, t.a, dst_rmw_op=nl.add)


@case("dma", "dma_transpose from HBM", {"a": (64, 128)}, {"out": (128, 64)}, lambda a: a.T, modes=(Mode(BF16),), in_hbm=("a",))
def _(t):
    nisa.dma_transpose(t.out, t.a)


@case("dma", "dma_transpose from SBUF", {"a": (64, 128)}, {"out": (128, 64)}, lambda a: a.T, modes=(Mode(BF16),))
def _(t):
    nisa.dma_transpose(t.out, t.a)


@case("dma", "dma_compute", {"a": (128, 1024), "b": (128, 1024)}, OUT, lambda a, b: a + b, modes=WIDTHS, in_hbm=("a", "b"))
def _(t):
    nisa.dma_compute(t.out, [t.a, t.b], nl.add)


@case("dma", "register_load and register_store", {"r": (1, 1)}, {"out": (1, 1)}, lambda r: r + 1, modes=(Mode(I32),))
def _(t):
    register = nisa.register_alloc()
    nisa.register_load(register, t.r)
    nisa.register_move(register, register + 1)
    nisa.register_store(t.out, register)


for _kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):

    @case("dma", f"{_kind} of one rank", ROWS, OUT, lambda a: a, modes=(Mode(F32),), in_hbm=("a",), **HBM)
    def _(t, kind=_kind):
        group = ncoll.ReplicaGroup([[0]])
        options = {"op": nl.add} if "reduce" in kind else {}
        if kind != "all_reduce":
            options["collective_dim"] = 0
        getattr(ncoll, kind)([t.a], [t.out], group, **options)


for _mode in nisa.dge_mode:

    @case("dma", f"dma_copy with descriptors of dge_mode.{_mode.name}", ROWS, OUT, lambda a: a, in_hbm=("a",))
    def _(t, mode=_mode):
        nisa.dma_copy(t.out, t.a, dge_mode=mode)
