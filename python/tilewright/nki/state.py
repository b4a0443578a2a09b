"""The run that goes on: its session, its launch grid and its loops."""

import threading


class Program(threading.local):
    """What belongs to one program of a launch."""

    def __init__(self):
        self.grid = ()
        self.place = ()
        self.loops = []
        self.reductions = {}
        self.shared = None
        self.lanes = {}
        self.at = 0
        #: The programs that run together with it, and its number among them; None if it runs alone.
        self.team = None
        self.member = 0
        #: The session of the run; None outside kernels. Threads that call kernels each have their own.
        self.session = None
        self.rank = 0
        self.core = 0
        #: How often it took part in each kind of barrier or collective.
        self.calls = {}
        self.barrier = 0
        self.placed = set()
        #: Tensors that were put into PSUM without the kernel asking for it.
        self.chosen_psum = set()


program = Program()


def running():
    """The session; an error outside kernels."""
    session = program.session
    if session is None:
        raise outside("this")
    return session


def outside(name):
    """What to say of a call that no kernel makes."""
    return RuntimeError(
        f"{name} works inside a kernel only: call the kernel, or nki.simulate_kernel(kernel, ...);"
        " what stands in no function goes into one, with its arrays as arguments"
    )
