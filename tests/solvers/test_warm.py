"""Warming leaves nothing to compile for the first person who solves."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import importlib, pkgutil
from numba.core.dispatcher import Dispatcher
import solvers
from solvers.warm import warm
warm()
for module in pkgutil.walk_packages(solvers.__path__, "solvers."):
    if not module.name.startswith("solvers.kernels"):  # whose own calls are compiled with the kernel called
        for name, kernel in vars(importlib.import_module(module.name)).items():
            if isinstance(kernel, Dispatcher) and not kernel.signatures:
                print(module.name, name)
"""


def test_warming_compiles_every_kernel():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=280)
    assert done.stdout == ""
