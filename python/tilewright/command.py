"""The command `tilewright` of an installed package: the same command line as the binary that Cargo builds."""

import signal
import sys

from . import _core


def main():
    """Runs the command line of this process and gives its exit code."""
    # Python would note an interrupt and wait until the command returns.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.run_command(["tilewright", *sys.argv[1:]], sys.executable)


if __name__ == "__main__":
    sys.exit(main())
