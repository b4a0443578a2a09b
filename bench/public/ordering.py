"""How well times of the model keep the order of published ones, and which races were found on the way."""

import collections
import statistics

#: Codes of findings about accesses that nothing orders.
RACES = ("neuron/core-race", "neuron/loop-carried")


def rank_correlation(first, second):
    """Spearman's: 1 for the same order, -1 for the reverse; None if all values of one side are equal.

    Equal values share their rank."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return statistics.correlation(_ranks(first), _ranks(second))


def _ranks(values):
    def rank(one):
        return sum(other < one for other in values) + sum(other == one for other in values) / 2

    return [rank(one) for one in values]


class Ordering:
    """Published and modelled times of each kernel's variants: its versions, shapes and types on a chip."""

    def __init__(self):
        self.rows = collections.defaultdict(list)

    def add(self, chip, kernel, published, ours):
        """One variant, both times in one unit."""
        self.rows[chip, kernel].append((published, ours))

    def lines(self):
        """Kernel, number of variants and rank correlation, for each kernel with two or more."""
        for (chip, kernel), rows in sorted(self.rows.items()):
            if len(rows) < 2:
                continue
            rho = rank_correlation(*zip(*rows))
            shown = "none" if rho is None else f"{rho:.2f}"
            yield f"order  {chip} {kernel:<28} {len(rows):>4} variants  rho {shown}"


def races(findings):
    """What a run says of races: in short, and a line for each."""
    found = [one for one in findings if one["code"] in RACES]
    counts = collections.Counter(one["severity"] for one in found)
    short = ", ".join(f"{count} {name}{'s' * (count > 1)}" for name, count in sorted(counts.items()))
    lines = [f"    {one['severity']}[{one['code']}] {one['line']}: {one['message']}" for one in found]
    return f"races {short or 'none'}", lines
