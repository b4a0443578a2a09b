"""What a run leaves behind: outputs, times, where they went, energy, findings and a trace; and what old scripts ask of it."""

import errno
import glob
import os
import pathlib


class _KeptSession:
    """The answers of a session, for results that were pickled."""

    _ASKED = ("timing", "findings", "spans", "spills", "where_time_went", "advice", "instructions", "energy", "trace", "text")

    def __init__(self, session):
        self.chip = session.chip
        self.answers = session.answers if isinstance(session, _KeptSession) else {name: getattr(session, name)() for name in self._ASKED}

    def __getattr__(self, name):
        if name in self._ASKED:
            return lambda: self.answers[name]
        raise AttributeError(f"a result that was pickled does not know `{name}`; ask before it is pickled")


class Result:
    """A run: its outputs, times, findings and trace."""

    def __init__(self, name, session, outputs):
        self.name = name
        self.chip = session.chip
        self.outputs = outputs
        self._session = session
        self._timing = None
        self._findings = None
        self.extra_findings = []
        #: The instance that ranks ran on.
        self.instance = None

    def __getstate__(self):
        """What is pickled: everything that the run left behind, without the run."""
        return {**self.__dict__, "_session": _KeptSession(self._session)}

    @property
    def timing(self):
        """Times by engine and bytes moved."""
        if self._timing is None:
            self._timing = self._session.timing()
        return self._timing

    @property
    def time(self):
        """Seconds from the first instruction to the last result."""
        return self.timing["time_s"]

    @property
    def engines(self):
        """Busy seconds and instructions of each engine."""
        return self.timing["engines"]

    @property
    def hbm_bytes(self):
        """Bytes read from and written to HBM."""
        return self.timing["hbm_read_bytes"], self.timing["hbm_written_bytes"]

    @property
    def findings(self):
        """What is wrong though it ran."""
        if self._findings is None:
            self._findings = list(self._session.findings()) + self.extra_findings
        return self._findings

    @property
    def spans(self):
        """When each instruction ran: (opcode, engine, core, start ns, end ns, done ns)."""
        return self._session.spans()

    @property
    def spills(self):
        """When tiles were moved out of SBUF and back: (`spill` or `reload`, start ns, end ns)."""
        return self._session.spills()

    @property
    def critical_path(self):
        """Lines that the time went to, from the last result back, longest first."""
        return self._session.where_time_went()["critical_path"]

    @property
    def idle(self):
        """Seconds that each engine did nothing, by what it waited for."""
        return self._session.where_time_went()["idle"]

    @property
    def advice(self):
        """What could be gained, each with an upper bound in seconds."""
        return self._session.advice()

    @property
    def instructions(self):
        """What was executed: (opcode, engine, line, busy ns)."""
        return self._session.instructions()

    def made_at(self, tensor):
        """The line that made a tensor."""
        return self._session.made_at(tensor.storage_id)

    @property
    def energy(self):
        """Joules by component; the constants and their sources are in the machine file."""
        return self._session.energy()

    @property
    def trace(self):
        """A Perfetto trace, as bytes; `.save(path)` writes them."""
        return TraceBytes(self._session.trace())

    @property
    def program(self):
        """The recorded program as text, which `tilewright sim` reads."""
        return self._session.text()

    def save_page(self, path, *others):
        """Writes the page that `tilewright view` shows of this run, and of others to compare it with, and gives its path."""
        from tilewright import Program, simulate

        runs = [simulate(Program(result.program, name=result.name)) for result in (self, *others)]
        return runs[0].save_page(path, *runs[1:])

    def to_dataframe(self, library=None):
        """The timeline, one row for each instruction, as a table of pandas, polars or Arrow."""
        from tilewright import Program, simulate

        return simulate(Program(self.program, name=self.name), values=False).to_dataframe(library)

    def summary(self):
        """A few lines of text."""
        timing = self.timing
        rows = [f"{self.name} on {self.chip}: {self.time * 1e6:.2f} us"]
        for name, engine in timing["engines"].items():
            if engine["instructions"]:
                share = engine["busy_s"] / (self.time * timing["cores"]) if self.time else 0.0
                rows.append(
                    f"  {name:<8} {engine['busy_s'] * 1e6:12.2f} us {share:7.1%} {engine['instructions']:9} instructions"
                )
        rows.append(f"  HBM {timing['hbm_read_bytes']} B read, {timing['hbm_written_bytes']} B written")
        if timing["spill_save_bytes"] or timing["spill_reload_bytes"]:
            rows.append(f"  spills {timing['spill_save_bytes']} B saved, {timing['spill_reload_bytes']} B reloaded")
        rows.append(f"  SBUF peak {timing['sbuf_peak_bytes']} B, PSUM peak {timing['psum_peak_bytes']} B of a partition")
        rows.append(f"  MFU {timing['mfu']:.1%}, MBU {timing['mbu']:.1%}, energy {sum(self.energy.values()) * 1e6:.2f} uJ")
        rows += self._where()
        for finding in self.findings:
            rows.append(f"{finding['severity']}[{finding['code']}] {finding['line']}")
            rows.append(f"  asked:   {finding['message']}")
            rows.append(f"  allowed: {finding['allowed']}")
            rows.append(f"  instead: {finding['instead']}")
        return "\n".join(rows)

    def _where(self):
        """Lines of text about where the time went and what could be gained."""
        timing, rows = self.timing, []
        rows.append(f"  busiest: {timing['bound_by']}, {timing['bound_part']:.1%} of the time")
        for share in self.critical_path[:3]:
            part = share["time_s"] / self.time if self.time else 0.0
            rows.append(f"  path {part:6.1%} {share['engine']:<7} {share['line']}")
        for advice in self.advice[:3]:
            part = advice["at_most_s"] / self.time
            rows.append(f"  gain at most {part:.1%}: {advice['name']} at {advice['line']}; {advice['text']}")
        return rows

    def _repr_html_(self):
        """The timeline, for notebooks."""
        from . import display

        return display.html(self)

    def json(self):
        """What a machine wants to know."""
        return {
            "name": self.name,
            "chip": self.chip,
            "time_us": self.time * 1e6,
            "engines": self.engines,
            "hbm_bytes": {"read": self.hbm_bytes[0], "written": self.hbm_bytes[1]},
            "spill_bytes": {"saved": self.timing["spill_save_bytes"], "reloaded": self.timing["spill_reload_bytes"]},
            "dma_bytes": self.timing["dma_bytes"],
            "mfu": self.timing["mfu"],
            "hfu": self.timing["hfu"],
            "mbu": self.timing["mbu"],
            "bound_by": self.timing["bound_by"],
            "idle": self.idle,
            "critical_path": self.critical_path,
            "advice": self.advice,
            "energy_j": self.energy,
            "findings": self.findings,
        }

    __str__ = summary


class TraceBytes(bytes):
    """A Perfetto trace, which opens at ui.perfetto.dev and in `tilewright view`."""

    def save(self, path):
        """Writes the trace, all of it or nothing, and gives the path."""
        write_trace(path, self)
        return pathlib.Path(path)


class Latency:
    """Percentiles of a run that always takes the same time."""

    def __init__(self, result):
        self._result = result

    def get_latency_percentile(self, percentile):
        """Microseconds, as whole as the benchmark tool gives them."""
        if not 0 <= percentile <= 100:
            raise ValueError(f"the percentile {percentile}: there are 0 to 100")
        return self._result.time * 1e6


    @property
    def mean(self):
        """Microseconds."""
        return self._result.time * 1e6


class BenchmarkResult:
    """What old scripts ask of a benchmark."""

    def __init__(self, result):
        self.result = result
        self.nc_latency = Latency(result)


def _partial(path):
    return f"{path}.partial-{os.getpid()}"


def check_writable(path):
    """Raises OSError if a trace cannot be written there."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    with open(_partial(path), "wb"):
        os.remove(_partial(path))


def _remove_left(path):
    """Removes what runs that were killed while they wrote there left beside it."""
    for left in glob.glob(glob.escape(str(path)) + ".partial-*"):
        process = left.rpartition("-")[2]
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            os.remove(left)
        except (ValueError, OSError):
            pass  # nobody's, or of a process that still runs


def write_trace(path, data):
    """Complete or not at all."""
    _remove_left(path)
    partial = _partial(path)
    try:
        with open(partial, "wb") as file:
            file.write(data)
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.remove(partial)
