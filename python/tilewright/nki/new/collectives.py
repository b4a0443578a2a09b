"""`nki.collectives`: communication between ranks, with values.

Ranks run together in `tilewright.nki.run_ranks(kernel, [arguments of rank 0, ...])`. A kernel that is called alone is
rank 0 of one. With several cores to a rank, each core communicates with the same core of the other ranks.
"""

from .. import lower, state, team
from ..registers import Register

__all__ = [
    "ReplicaGroup",
    "all_gather",
    "all_gather_v",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
]


class ReplicaGroup:
    """Ranks that communicate: lists of them, each rank in one."""

    def __init__(self, groups=None, **_options):
        self.groups = [[int(rank) for rank in group] for group in (groups or [[0]])]


def rank_id(name=None):
    """The rank that runs."""
    return state.program.rank


def _group(replica_group):
    """The ranks of the group of this one."""
    groups = replica_group.groups if isinstance(replica_group, ReplicaGroup) else replica_group
    rank = state.program.rank
    everyone = [one for group in groups for one in group]
    if len(set(everyone)) < len(everyone):
        raise ValueError(f"the groups {groups} have a rank twice: each rank is in one group, once")
    ranks = next((list(group) for group in groups if rank in group), None)
    if ranks is None:
        raise ValueError(f"rank {rank} is in none of the groups {groups}")
    known = _members()
    missing = [one for one in ranks if one not in known]
    if missing:
        raise ValueError(
            f"ranks {missing} of the group do not run: start {max(ranks) + 1} ranks with "
            "tilewright.nki.run_ranks(kernel, [arguments of each rank])"
        )
    return ranks


def _members():
    """Members of the team that are the same core of other ranks, by rank."""
    program = state.program
    if program.team is None:
        return {program.rank: 0}
    return {rank: at for at, (rank, core) in enumerate(program.team.members) if core == program.core}


def _exchange(kind, tensors, ranks):
    """What each rank gave, in the order of the group."""
    given = [tensor.snapshot() for tensor in tensors]
    if state.program.team is None:
        return [given]
    members = _members()
    key = (kind, state.program.core, tuple(ranks))
    return team.gather(key, given, [members[rank] for rank in ranks])


def _listed(tensors):
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]


def _run(kind, srcs, parts, ranks, op=None, pairs=()):
    state.running().collective(kind, srcs, parts, ranks, None if op is None else lower.op_name(op), list(pairs))


def _split(tensor, dim, count):
    """Equal parts of a tensor along a dimension."""
    size = tensor.shape[dim]
    if size % count:
        raise ValueError(f"dimension {dim} of shape {tuple(tensor.shape)} in {count} equal parts")
    return [tensor.sliced(dim, at * (size // count), size // count) for at in range(count)]


def all_reduce(srcs, dsts, replica_group, op, priority=None, name=None):
    """Everyone has the combination of what all ranks gave."""
    srcs, dsts, ranks = _listed(srcs), _listed(dsts), _group(replica_group)
    given = _exchange("all_reduce", srcs, ranks)
    _run("all_reduce", srcs, [(dst, [one[at] for one in given]) for at, dst in enumerate(dsts)], ranks, op)


def all_gather(srcs, dsts, replica_group, collective_dim=0, priority=None, name=None):
    """Everyone has what all ranks gave, one behind the other along a dimension."""
    srcs, dsts, ranks = _listed(srcs), _listed(dsts), _group(replica_group)
    given = _exchange("all_gather", srcs, ranks)
    parts = []
    for at, dst in enumerate(dsts):
        pieces = _split(dst, int(collective_dim), len(ranks))
        parts += [(piece, [one[at]]) for piece, one in zip(pieces, given)]
    _run("all_gather", srcs, parts, ranks)


def reduce_scatter(srcs, dsts, replica_group, collective_dim=0, op=None, priority=None, name=None):
    """Everyone has its part of the combination of what all ranks gave."""
    srcs, dsts, ranks = _listed(srcs), _listed(dsts), _group(replica_group)
    given = _exchange("reduce_scatter", srcs, ranks)
    mine = ranks.index(state.program.rank)
    parts = []
    for at, dst in enumerate(dsts):
        pieces = [_split(one[at], int(collective_dim), len(ranks))[mine] for one in given]
        parts.append((dst, pieces))
    _run("reduce_scatter", srcs, parts, ranks, op)


def all_to_all(srcs, dsts, replica_group, collective_dim=0, priority=None, name=None):
    """Everyone gives each rank a part."""
    srcs, dsts, ranks = _listed(srcs), _listed(dsts), _group(replica_group)
    given = _exchange("all_to_all", srcs, ranks)
    mine = ranks.index(state.program.rank)
    parts = []
    for at, dst in enumerate(dsts):
        pieces = _split(dst, int(collective_dim), len(ranks))
        sources = [_split(one[at], int(collective_dim), len(ranks))[mine] for one in given]
        parts += [(piece, [source]) for piece, source in zip(pieces, sources)]
    _run("all_to_all", srcs, parts, ranks)


def _rows(metadata, rows, ranks):
    """The rows of a table of counts and places."""
    values = [int(value) for value in metadata.numpy().reshape(-1)]
    if len(values) < rows * ranks:
        raise ValueError(f"metadata of {len(values)} numbers for {rows} rows of {ranks}")
    return [values[row * ranks : (row + 1) * ranks] for row in range(rows)]


def _flat(tensor):
    return tensor.reshaped([tensor.size])


def _variable(kind, srcs, dsts, replica_group, metadata, has_rdispls, same_for_all):
    """Chunks whose sizes are known only when they are sent: counts and places from a table."""
    src, dst, ranks = _flat(_listed(srcs)[0]), _flat(_listed(dsts)[0]), _group(replica_group)
    rows = _rows(metadata, 4 if has_rdispls else 3, len(ranks))
    counts, places = rows[0], rows[1]
    chunks = []
    for at in range(len(ranks)):
        one = 0 if same_for_all else at
        chunks.append(src.sliced(0, places[one], counts[one]) if counts[one] else None)
    given = _exchange(kind, [chunk for chunk in chunks if chunk is not None], ranks)
    sizes = team.gather((kind + " sizes", state.program.core, tuple(ranks)), counts, [_members()[r] for r in ranks]) if state.program.team else [counts]
    mine, slot, parts = ranks.index(state.program.rank), dst.size // len(ranks), []
    for at, (sent, size) in enumerate(zip(given, sizes)):
        wanted = 0 if same_for_all else mine
        if not size[wanted]:
            continue
        sent_at = 0 if same_for_all else sum(1 for count in size[:mine] if count)
        place = rows[3][at] if has_rdispls else at * slot
        parts.append((dst.sliced(0, place, size[wanted]), [sent[sent_at]]))
    _run("all_gather" if same_for_all else "all_to_all", [src], parts, ranks)


def all_gather_v(
    srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, priority=None, name=None
):
    """Everyone has a chunk of each rank, whose size the rank's table says."""
    _variable("all_gather_v", srcs, dsts, replica_group, metadata_tensor, has_rdispls, True)


def all_to_all_v(
    srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, priority=None, name=None
):
    """Everyone gives each rank a chunk, whose size the rank's table says."""
    _variable("all_to_all_v", srcs, dsts, replica_group, metadata_tensor, has_rdispls, False)


def collective_permute(srcs, dsts, source_target_pairs, priority=None, name=None):
    """Messages between named pairs of ranks."""
    srcs, dsts = _listed(srcs), _listed(dsts)
    pairs = [(int(source), int(target)) for source, target in source_target_pairs]
    rank = state.program.rank
    ranks = sorted({one for pair in pairs for one in pair})
    if rank not in ranks:
        return
    _group([ranks])
    given = dict(zip(ranks, _exchange("collective_permute", srcs, ranks)))
    source = next((source for source, target in pairs if target == rank), None)
    parts = [] if source is None else [(dst, [given[source][at]]) for at, dst in enumerate(dsts)]
    _run("collective_permute", srcs, parts, ranks, pairs=pairs)


def collective_permute_implicit(
    srcs_by_channel, dsts_by_channel, replica_group, channel_ids=(0,), priority=None, name=None
):
    """Everyone sends to its successor in the ring of the group and receives from its predecessor."""
    srcs = [tensor for channel in srcs_by_channel for tensor in _listed(channel)]
    dsts = [tensor for channel in dsts_by_channel for tensor in _listed(channel)]
    _ring(srcs, dsts, replica_group)


def _ring(srcs, dsts, replica_group):
    ranks = _group(replica_group)
    given = _exchange("collective_permute_implicit", srcs, ranks)
    before = given[(ranks.index(state.program.rank) - 1) % len(ranks)]
    pairs = list(zip(ranks, ranks[1:] + ranks[:1]))
    _run("collective_permute", srcs, [(dst, [source]) for dst, source in zip(dsts, before)], ranks, pairs=pairs)


def collective_permute_implicit_reduce(
    srcs0_by_channel, srcs1_by_channel, dsts_by_channel, replica_group, op, channel_ids=(0,), priority=None, name=None
):
    """Everyone combines two tensors, sends the result to its successor and receives its predecessor's."""
    sums = []
    for first, second in zip(srcs0_by_channel, srcs1_by_channel):
        first, second = _listed(first)[0], _listed(second)[0]
        total = state.running().alloc(list(first.shape), first.code, first.memory)
        state.running().collective("all_reduce", [first, second], [(total, [first, second])], [state.program.rank], lower.op_name(op))
        sums.append(total)
    dsts = [tensor for channel in dsts_by_channel for tensor in _listed(channel)]
    _ring(sums, dsts, replica_group)


def collective_permute_implicit_current_processing_rank_id(iteration_id, replica_group, channel_id=0, name=None):
    """The rank whose data is here after so many steps around the ring."""
    ranks = _group(replica_group)
    return Register(ranks[(ranks.index(state.program.rank) - int(iteration_id)) % len(ranks)])
