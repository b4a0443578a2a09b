"""`python -m tilewright.nki script.py [arguments]`: runs an unmodified script."""

import json
import os
import runpy
import sys

from . import install, kernel


def main():
    """Runs the script, and prints a summary of each kernel call."""
    arguments = sys.argv[1:]
    as_json = "--json" in arguments and arguments.remove("--json") is None
    chip = None
    if "--chip" in arguments:
        at = arguments.index("--chip")
        if at + 1 >= len(arguments):
            print("--chip needs a name", file=sys.stderr)
            return 2
        chip = arguments[at + 1]
        del arguments[at : at + 2]
    if not arguments:
        print("usage: python -m tilewright.nki [--chip NAME] [--json] script.py [arguments]", file=sys.stderr)
        return 2
    if chip:
        os.environ["TILEWRIGHT_CHIP"] = chip
    install()
    failed = []

    def report(result):
        if as_json:
            print(json.dumps(result.json()), file=sys.stderr)
        else:
            print(result.summary(), file=sys.stderr)
        failed.extend(finding for finding in result.findings if finding["severity"] == "error")

    kernel.listeners.append(report)
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    runpy.run_path(arguments[0], run_name="__main__")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
