"""Rows that a tile of indices picks (`vector_offset`): what `dma_compute` asks of them."""

from . import refusals


def check_sum(dst, srcs, unique):
    """What the page of dma_compute asks for: indices that are said to be unique, and are in the result."""
    if not unique and any(view.is_picked for view in (dst, *srcs)):
        raise refusals.refused(
            "neuron/operator",
            "dma_compute with unique_indices=False of rows that a tile picks",
            "unique_indices=True with vector_offset: indices that come twice are not supported",
            "add up the rows of one index first, or make a call for each index that comes again",
        )
    repeated = dst.repeated_element() if dst.is_picked else None
    if repeated is not None:
        place, count = repeated
        refusals.tell(
            "neuron/repeated-index",
            f"dma_compute with unique_indices=True adds {count} elements to {dst.name or 'the tensor'}{place} at"
            " once, and a device may lose all but one of the sums",
            "indices of which none comes twice in one call",
            "add up the rows of one index first, or make a call for each index that comes again",
        )
