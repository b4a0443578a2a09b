"""Comparison of arrays, as the vendor's tests call it."""

import numpy as np


def allclose(a, b, rtol=1e-5, atol=1e-8, verbose=0, **_options):
    """True if they agree within tolerances."""
    return bool(np.allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=rtol, atol=atol))
