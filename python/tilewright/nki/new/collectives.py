"""`nki.collectives`: groups exist, communication between devices does not yet."""


class ReplicaGroup:
    """Ranks that communicate."""

    def __init__(self, groups=None, **_options):
        self.groups = groups


def rank_id():
    """The rank of this device: there is one."""
    return 0


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*_args, **_options):
        raise NotImplementedError(f"nki.collectives.{name} is not supported yet")

    return missing
