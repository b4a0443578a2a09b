"""Programs that run together: one at a time, each until it waits for another or ends.

Cores of a launch meet in barriers and exchange tiles; programs of a grid combine values; ranks take part in collectives.
Who runs next is fixed, so that every run is the same.
"""

import threading

from tilewright import _core

from . import state


class Together(BaseException):
    """Raised by a program that needs the others beside it when programs run one after the other."""


class Deadlock(RuntimeError):
    """Every program waits for another."""


class Team:
    """The members, whose turn it is, and what they left for one another."""

    def __init__(self, members):
        #: (rank, core) of each.
        self.members = members
        self.turn = 0
        self.condition = threading.Condition()
        self.done = [False] * len(members)
        self.failed = None
        self.mail = {}
        self._waits = {}
        self._idle = 0

    def post(self, key, value):
        """Leaves something; whoever waits may go on."""
        self.mail[key] = value
        self._idle = 0

    def take(self, key):
        """Takes something away."""
        return self.mail.pop(key)

    def wait(self, ready, what):
        """Lets the others run until `ready()`."""
        member = state.program.member
        place = None
        while not ready():
            place = place or state.program.session.here()
            self._waits[member] = f"{what} at {place}"
            self._idle += 1
            if self._idle > 2 * len(self.members) and self._all_wait():
                raise Deadlock("; ".join(self._state(at) for at in range(len(self.members))))
            self.pass_on(member)
        self._waits.pop(member, None)

    def alone(self):
        """True if every other member ended."""
        return self._alive() == [state.program.member]

    def _alive(self):
        return [at for at, done in enumerate(self.done) if not done]

    def _all_wait(self):
        return all(at in self._waits for at in self._alive())

    def _state(self, at):
        """What a member waits for, or that it has ended."""
        return f"{self._name(at)} has ended" if self.done[at] else f"{self._name(at)} waits for {self._waits[at]}"

    def _name(self, at):
        rank, core = self.members[at]
        ranks = {rank for rank, _ in self.members}
        return f"rank {rank} core {core}" if len(ranks) > 1 else f"core {core}"

    def wait_turn(self, member):
        """Sleeps until it is this member's turn, then makes its run the current one."""
        with self.condition:
            self.condition.wait_for(lambda: self.turn == member or self.failed is not None)
            if self.failed is not None:
                raise Stopped("another program failed")
        program = state.program
        program.session.current_program = program.core
        program.session.current_barrier = program.barrier

    def pass_on(self, member):
        """Lets the next member run, and comes back when it is this one's turn."""
        with self.condition:
            self._next(member)
            self.condition.notify_all()
        self.wait_turn(member)

    def _next(self, member):
        count = len(self.members)
        for step in range(1, count + 1):
            candidate = (member + step) % count
            if not self.done[candidate]:
                self.turn = candidate
                return

    def finish(self, member, error=None):
        """The member ended, well or with an error, which stops the others."""
        with self.condition:
            self.done[member] = True
            self._idle = 0
            if error is not None and self.failed is None:
                self.failed = error
            self._next(member)
            self.condition.notify_all()


class Stopped(RuntimeError):
    """A member that was stopped because another one failed."""


def run(bodies, members):
    """Runs the bodies as members of a team and gives their values; the first error is raised with its traceback.

    A body is called with the team and its number, in a thread of its own."""
    team = Team(members)
    values = [None] * len(bodies)

    def member(at):
        program = state.program
        program.team, program.member = team, at
        error = None
        try:
            values[at] = bodies[at](team, at)
        except BaseException as caught:  # raised again below
            error = caught
        finally:
            _core.enter(None)
            team.finish(at, error)

    threads = [threading.Thread(target=member, args=(at,)) for at in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if team.failed is not None:
        raise team.failed
    return values


def met():
    """What comes now is ordered behind what came before on the other programs."""
    state.program.barrier += 1
    state.program.session.current_barrier = state.program.barrier


def stored(dst):
    """Cores take turns at what they write to shared memory.

    Kernels exist in which every core fills the whole output and then writes its own part: on a device all fill first."""
    program = state.program
    if program.team is not None and dst.memory == "shared_hbm":
        program.team.pass_on(program.member)


def gather(key, value, members):
    """What each of these members gave under the same key, in order; waits until all of them did."""
    program = state.program
    team, me = program.team, program.member
    count = program.calls[key] = program.calls.get(key, 0) + 1
    team.post((key, count, me), value)
    team.wait(lambda: all((key, count, other) in team.mail for other in members), f"{key[0]} {count}")
    given = [team.mail[key, count, other] for other in members]
    taken = team.mail[key, count] = team.mail.get((key, count), 0) + 1
    if taken == len(members):
        for other in members:
            team.take((key, count, other))
        team.take((key, count))
    # Ranks that meet in a collective order nothing between the cores of one of them.
    if any(team.members[other][0] == program.rank for other in members if other != me):
        met()
    return given
