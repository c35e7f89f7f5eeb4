"""Kernels are called with one kind of arrays each: another would be compiled as another kernel."""

from __future__ import annotations

import json
import subprocess
import sys

COMPILED_TWICE = {"walk_load", "cut_order", "floors"}
"""For plain loads, whose costs have constants for rows, passes and classes, and for their variants."""
COUNT = """
import importlib, json, pkgutil, sys
import solvers
from solvers.kernels.lazy import Kernel
from solvers.planners.warm import FAMILIES

for family in ("page", "passes", "latencies"):
    FAMILIES[family]()
called = {}
for module in pkgutil.walk_packages(solvers.__path__, "solvers."):
    if module.name.endswith("_kernel"):
        continue  # kernels called by kernels
    for kernel in vars(importlib.import_module(module.name)).values():
        if isinstance(kernel, Kernel):
            called[kernel.py_func.__name__] = len(kernel.dispatcher.signatures)
print(json.dumps(called))
"""
"""Counted in a process of its own: kernels that other tests compile call some of these with other arrays."""


def test_a_kernel_is_called_with_one_signature_only():
    ran = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, timeout=240, check=True)
    called = json.loads(ran.stdout.splitlines()[-1])
    assert sum(count > 0 for count in called.values()) > 5
    assert {name for name, count in called.items() if count > 1 + (name in COMPILED_TWICE)} == set()
