"""Rows that a tile of indices picks (`vector_offset`): which they are, and what `dma_compute` asks of them.

The core keeps the elements of such a view, not its indices. They are kept here for the newest views, which is
enough for those that are written into the call that uses them; what was made long before is not checked.
"""

import numpy as np

from . import refusals, state


def remember(view, indices, starts, limit):
    """Notes a view with its indices, but for rows that begin outside of the tensor and are never written."""
    state.program.picked.append((view, indices[(starts >= 0) & (starts < limit)]))
    return view


def _indices(view):
    return next((indices for known, indices in reversed(state.program.picked) if known is view), None)


def check_sum(dst, srcs, unique):
    """What the page of dma_compute asks for: indices that are said to be unique, and are in the result."""
    if not unique and any(_indices(view) is not None for view in (dst, *srcs)):
        raise refusals.refused(
            "neuron/operator",
            "dma_compute with unique_indices=False of rows that a tile picks",
            "unique_indices=True with vector_offset: indices that come twice are not supported",
            "add up the rows of one index first, or make a call for each index that comes again",
        )
    indices = _indices(dst)
    if indices is None:
        return
    found, counts = np.unique(indices, return_counts=True)
    if (counts > 1).any():
        index, count = found[counts > 1][0], counts[counts > 1][0]
        refusals.tell(
            "neuron/pattern",
            f"dma_compute with unique_indices=True adds {count} rows to that of index {index} at once, and"
            " a device may lose all but one of the sums",
            "indices of which none comes twice in one call",
            "add up the rows of one index first, or make a call for each index that comes again",
        )
