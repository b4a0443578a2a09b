"""The chapter on NKI: its files and commands are run, and must print what it says. BLESS=1 writes what they print."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "nki.md"
FENCE = re.compile(r"^```(python (?P<name>\S+)|console python)\n(?P<body>.*?)^```$", re.M | re.S)


def printed(body, folder):
    """A console fence as it should read."""
    text = ""
    for line in body.splitlines():
        if line.startswith("$ "):
            words = shlex.split(line[2:])
            assert words[:3] == ["tilewright", "nki", "run"] or words[0] == "python", line
            command = [sys.executable, *(words[1:] if words[0] == "python" else ["-m", "tilewright.nki", *words[3:]])]
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)
            text += f"{line}\n{done.stdout}{done.stderr}"
    return text


def test_the_chapter_prints_what_it_says(tmp_path):
    page = PAGE.read_text()
    shutil.copytree(PAGE.parents[1] / "kernels" / "nki", tmp_path / "kernels" / "nki")

    def example(found):
        if found["name"]:
            (tmp_path / found["name"]).write_text(found["body"])
            return found[0]
        return f"```console python\n{printed(found['body'], tmp_path)}```"

    seen = FENCE.sub(example, page)
    if os.environ.get("BLESS"):
        PAGE.write_text(seen)
    assert seen == PAGE.read_text()
    assert len(FENCE.findall(page)) >= 8
    for code in ("neuron/sbuf-capacity", "neuron/address-overlap", "neuron/loop-carried", "neuron/core-race", "neuron/slow-dma"):
        assert code in seen
