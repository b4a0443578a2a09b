"""Race mutants: legal kernels of several cores, and the same with an order taken away or an access moved, against an oracle that sees the plan of the kernel
and nothing of what was recorded: every pair of accesses that nothing orders is found, with both lines, and no other.

A plan is a list of steps for each core. Rows of a shared tensor are what accesses touch; cores meet at steps that all of them have. The kernel is written out
of the plan with a line for each step, so that findings name steps. TILEWRIGHT_DEEP=1 tries many more.
"""

import itertools
import os
import random
import re

import neuronxcc.nki.language as old_nl  # noqa: F401  the names that kernels of the plans use
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import tilewright.nki

ROWS, COLUMNS = 5, 16
DEEP = os.environ.get("TILEWRIGHT_DEEP") == "1"
SEEDS = range(300 if DEEP else 24)
X = np.zeros((ROWS, COLUMNS), np.float32)


def legal_plan(draw):
    """Steps of two cores in sections that end where both meet: in a section, a row that a core writes is its own."""
    plan = ([], [])
    for _ in range(draw.randint(2, 4)):
        owners = [draw.choice((0, 0, 1, 1, None)) for _ in range(ROWS)]
        for core in (0, 1):
            for _ in range(draw.randint(3, 9)):
                first = draw.randrange(ROWS)
                rows = (first, min(ROWS, first + draw.choice((1, 1, 1, 2))))
                mine = all(owners[row] == core for row in range(*rows))
                readable = all(owners[row] in (core, None) for row in range(*rows))
                if mine and draw.random() < 0.6:
                    plan[core].append(("write", rows))
                elif readable:
                    plan[core].append(("read", rows))
        meeting = draw.choice((("core_barrier", None), ("sendrecv", None)))
        for core in (0, 1):
            plan[core].append(meeting)
    return plan


def mutated(plan, draw):
    """The plan without one of its meetings, with an access on other rows, with a read made a write, or with two steps of a core swapped."""
    steps = [list(core) for core in plan]
    kind = draw.choice(("meeting", "rows", "write", "swap"))
    accesses = [(core, at) for core in (0, 1) for at, (what, _) in enumerate(steps[core]) if what in ("read", "write")]
    if kind == "meeting":
        number = draw.randrange(max(1, sum(what in ("core_barrier", "sendrecv") for what, _ in steps[0])))
        for core in (0, 1):
            at = [at for at, (what, _) in enumerate(steps[core]) if what in ("core_barrier", "sendrecv")][number]
            del steps[core][at]
    elif accesses and kind in ("rows", "write"):
        core, at = draw.choice(accesses)
        what, rows = steps[core][at]
        first = draw.randrange(ROWS - 1)
        steps[core][at] = (what, (first, first + 2)) if kind == "rows" else ("write", rows)
    elif accesses:
        # An access goes to the other side of its neighbour, which may be a meeting.
        core, at = draw.choice(accesses)
        other = min(at + 1, len(steps[core]) - 1)
        steps[core][at], steps[core][other] = steps[core][other], steps[core][at]
    return tuple(steps)


def written_out(plan):
    """The text of the kernel, and for each core the line of each of its steps."""
    lines = [
        "def kernel(x):",
        "    shared = nl.ndarray((ROWS, COLUMNS), nl.float32, buffer=nl.shared_hbm, name='shared')",
        "    tile, other = nl.ndarray((ROWS, COLUMNS), nl.float32), nl.ndarray((ROWS, COLUMNS), nl.float32)",
        "    nisa.dma_copy(dst=tile, src=x)",
        "    core = nl.program_id(0)",
    ]
    numbers = []
    for core, steps in enumerate(plan):
        lines.append(f"    if core == {core}:")
        lines.append("        nisa.memset(tile, 0)")
        numbers.append([])
        for what, rows in steps:
            if what == "write":
                # Each write has values of its own.
                lines.append(f"        nisa.memset(tile, {len(lines)})")
                lines.append(f"        nisa.dma_copy(dst=shared[{rows[0]}:{rows[1]}], src=tile[{rows[0]}:{rows[1]}])")
            elif what == "read":
                lines.append(f"        nisa.dma_copy(dst=other[0:{rows[1] - rows[0]}], src=shared[{rows[0]}:{rows[1]}])")
            elif what == "core_barrier":
                lines.append("        nisa.core_barrier(shared, (0, 1))")
            else:
                lines.append("        nisa.sendrecv(tile, other, 1 - core, 1 - core, 0)")
            numbers[core].append(len(lines))
    lines.append("    return shared")
    return "\n".join(lines) + "\n", numbers


def pairs_without_order(plan, numbers):
    """The oracle: pairs of lines of different cores between the same meetings that share a row, one of which is written."""
    accesses = []
    for core, (steps, lines) in enumerate(zip(plan, numbers)):
        section = 0
        for (what, rows), line in zip(steps, lines):
            if what in ("core_barrier", "sendrecv"):
                section += 1
            else:
                accesses.append((core, section, what, set(range(*rows)), line))
    found = set()
    for (core, section, what, rows, line), (core2, section2, what2, rows2, line2) in itertools.combinations(accesses, 2):
        if core != core2 and section == section2 and "write" in (what, what2) and rows & rows2:
            found.add(frozenset((line, line2)))
    return found


def pairs_found(result, name):
    """Pairs of lines that findings of races name."""
    found = set()
    for one in result.findings:
        if one["code"] == "neuron/core-race":
            assert one["severity"] == "error", one
            found.add(frozenset(int(line) for line in re.findall(re.escape(name) + r":(\d+)", one["line"] + " " + one["message"])))
    return found


def run_plan(plan, tag):
    """The result of a plan's kernel, the name of its file and the lines of its steps."""
    text, numbers = written_out(plan)
    name = f"plan-{tag}.py"
    scope = {"nl": nl, "nisa": nisa, "ROWS": ROWS, "COLUMNS": COLUMNS}
    exec(compile(text, name, "exec"), scope)
    return tilewright.nki.run(scope["kernel"], X, grid=(2,), dialect="new", chip="trainium2"), name, numbers, text


@pytest.mark.parametrize("seed", SEEDS)
def test_two_cores_with_and_without_their_order(seed):
    draw = random.Random(seed)
    plan = legal_plan(draw)
    result, name, numbers, text = run_plan(plan, seed)
    assert not pairs_without_order(plan, numbers) and not pairs_found(result, name), text
    for number in range(6 if DEEP else 3):
        mutant = mutated(mutated(plan, draw), draw)
        result, name, numbers, text = run_plan(mutant, f"{seed}-{number}")
        assert pairs_found(result, name) == pairs_without_order(mutant, numbers), text


def test_mutants_have_races():
    """The test above is worth something: a good part of its mutants is wrong."""
    draw = random.Random(7)
    plans = [mutated(mutated(legal_plan(draw), draw), draw) for _ in range(100)]
    wrong = sum(bool(pairs_without_order(plan, written_out(plan)[1])) for plan in plans)
    assert 25 <= wrong <= 95


def loop_text(steps, iterations):
    """A kernel of the first dialect whose loop has these steps: what it does to which column, as a multiple of the index and an offset."""
    lines = [
        "def kernel(x):",
        "    out = old_nl.ndarray((4, 64), dtype=old_nl.float32, buffer=old_nl.shared_hbm)",
        "    held = old_nl.load(x)",
        f"    for at in old_nl.affine_range({iterations}):",
    ]
    numbers = []
    for what, factor, offset in steps:
        place = f"old_nl.ds({factor} * at + {offset}, 1)"
        if what == "write":
            lines.append(f"        held[:, {place}] = old_nl.full((4, 1), {len(lines)}.0, old_nl.float32)")
        else:
            lines.append(f"        old_nl.store(out[:, {place}], held[:, {place}])")
        numbers.append(len(lines))
    lines.append("    return out")
    return "\n".join(lines) + "\n", numbers


def carried(steps, iterations, numbers):
    """The oracle: lines that read a column whose last writer was an earlier iteration, with the line of that writer, and lines that store to a column which an
    earlier iteration had left with another value than theirs leaves."""
    writers, found, held, out, stores = {}, set(), {}, {}, {}
    for at in range(iterations):
        over = []
        for (what, factor, offset), line in zip(steps, numbers):
            column = factor * at + offset
            if what == "write":
                writers[column], held[column] = (at, line), line
                continue
            if column in writers and writers[column][0] != at:
                found.add((line, writers[column][1]))
            if column in stores and stores[column][0] != at:
                over.append((column, out[column], line, stores[column][1]))
            stores[column], out[column] = (at, line), held.get(column, 0)
        found |= {(line, earlier) for column, before, line, earlier in over if out[column] != before}
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_loops_whose_iterations_are_said_to_be_independent(seed):
    draw = random.Random(1000 + seed)
    for number in range(6 if DEEP else 3):
        iterations = draw.randint(2, 6)
        steps = [(draw.choice(("write", "read")), draw.randint(0, 3), draw.randint(0, 6)) for _ in range(draw.randint(2, 5))]
        text, numbers = loop_text(steps, iterations)
        name = f"loop-{seed}-{number}.py"
        scope = {"old_nl": old_nl}
        exec(compile(text, name, "exec"), scope)
        result = tilewright.nki.run(scope["kernel"], np.zeros((4, 64), np.float32), dialect="old", chip="trainium2")
        found = set()
        for one in result.findings:
            if one["code"] == "neuron/loop-carried":
                later = int(re.search(r":(\d+)", one["line"]).group(1))
                earlier = int(re.search(r"what .* at .*:(\d+) (?:wrote|read) in", one["message"]).group(1))
                found.add((later, earlier))
        assert found == carried(steps, iterations, numbers), text
