"""Kernels are called with one kind of arrays each: another would be compiled as another kernel."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import solvers
from solvers.kernels.lazy import Kernel
from solvers.planners.warm import FAMILIES

COMPILED_TWICE = {"walk_load", "cut_order", "floors"}
"""For plain loads, whose costs have constants for rows, passes and classes, and for their variants."""


@pytest.mark.parametrize("family", ["page", "passes", "latencies"])
def test_a_kernel_is_called_with_one_signature_only(family):
    FAMILIES[family]()
    called = {}
    for module in pkgutil.walk_packages(solvers.__path__, "solvers."):
        if module.name.endswith("_kernel"):
            continue  # kernels called by kernels
        for kernel in vars(importlib.import_module(module.name)).values():
            if isinstance(kernel, Kernel):
                called[kernel.py_func.__name__] = len(kernel.dispatcher.signatures)
    assert {name for name, count in called.items() if count > 1 + (name in COMPILED_TWICE)} == set()
