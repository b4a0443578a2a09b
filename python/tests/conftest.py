"""Kernels import the vendor's modules; ours stand for them."""

import pathlib
import sys

import tilewright.nki

tilewright.nki.install()
sys.path.insert(0, str(pathlib.Path(__file__).parent))
