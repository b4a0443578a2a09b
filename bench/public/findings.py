"""Error-level findings of public kernels, which run on devices: each is a false alarm, or has its reason stated.

A listener of every run, in this process and, as a pytest plugin, in those of test suites; one line of JSON for each finding goes to
the file that TILEWRIGHT_FINDINGS_FILE names.
"""

import collections
import json
import os

import tilewright.nki.kernel

FILE = "TILEWRIGHT_FINDINGS_FILE"


def _listen(result):
    rows = [one for one in result.findings if one["severity"] == "error"]
    if rows:
        with open(os.environ[FILE], "a", encoding="utf-8") as out:
            for one in rows:
                out.write(json.dumps({"kernel": result.name, "code": one["code"], "line": one["line"], "message": one["message"]}) + "\n")


def listen():
    """Keeps the findings of every run from now on, if the environment says where."""
    if os.environ.get(FILE) and _listen not in tilewright.nki.kernel.listeners:
        tilewright.nki.kernel.listeners.append(_listen)


def report(path):
    """One line for each place and code, with how often it was found."""
    found = collections.Counter()
    with open(path, encoding="utf-8") as rows:
        for row in map(json.loads, rows):
            found[row["code"], row["line"], row["kernel"], row["message"]] += 1
    places = collections.Counter((code, line) for code, line, _, _ in found)
    print(f"error-level findings: {sum(found.values())} at {len(places)} lines")
    printed = set()
    for (code, line, kernel, message), count in sorted(found.items()):
        if (code, line) not in printed:
            printed.add((code, line))
            print(f"  {code} {line} {kernel}: {message} ({count})")


listen()
