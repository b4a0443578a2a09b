"""`neuronxcc.nki.nccl`: communication between ranks, in the words of the first dialect.

The same collectives as `nki.collectives`, whose words are taken too. Ranks run together in `tilewright.nki.run_ranks`.
"""

from ..new import collectives as _collectives
from ..new.collectives import (  # noqa: F401
    ReplicaGroup,
    all_gather_v,
    all_to_all_v,
    collective_permute_implicit,
    collective_permute_implicit_current_processing_rank_id,
    collective_permute_implicit_reduce,
    rank_id,
)


def _groups(replica_groups, replica_group):
    """Lists of ranks; one list stands for itself."""
    groups = replica_groups if replica_groups is not None else replica_group
    if isinstance(groups, (list, tuple)) and groups and not isinstance(groups[0], (list, tuple)):
        return [list(groups)]
    return groups


def all_reduce(op=None, srcs=(), dsts=(), replica_groups=None, dtype=None, *, replica_group=None, **_options):
    """Everyone has the combination of what all ranks gave."""
    _collectives.all_reduce(srcs, dsts, _groups(replica_groups, replica_group), op)


def all_gather(op=None, srcs=(), dsts=(), replica_groups=None, all_gather_dim=0, dtype=None, *, replica_group=None, **_options):
    """Everyone has what all ranks gave, one behind the other along a dimension; nothing is combined, whatever `op` says."""
    _collectives.all_gather(srcs, dsts, _groups(replica_groups, replica_group), all_gather_dim)


def reduce_scatter(op=None, srcs=(), dsts=(), replica_groups=None, reduce_scatter_dim=0, dtype=None, *, replica_group=None, **_options):
    """Everyone has its part of the combination of what all ranks gave."""
    _collectives.reduce_scatter(srcs, dsts, _groups(replica_groups, replica_group), reduce_scatter_dim, op)


def all_to_all(op=None, srcs=(), dsts=(), replica_groups=None, split_dim=0, concat_dim=None, dtype=None, *, replica_group=None, **_options):
    """Everyone gives each rank a part."""
    if concat_dim is not None and int(concat_dim) != int(split_dim):
        raise ValueError(f"all_to_all that splits dimension {split_dim} and joins dimension {concat_dim}: both are the same here; transpose before or after it")
    _collectives.all_to_all(srcs, dsts, _groups(replica_groups, replica_group), split_dim)


def collective_permute(dst=None, src=None, source_target_pairs=(), *, dsts=None, srcs=None, **_options):
    """Messages between named pairs of ranks."""
    _collectives.collective_permute(src if srcs is None else srcs, dst if dsts is None else dsts, source_target_pairs)
