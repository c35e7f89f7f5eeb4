"""Warming leaves nothing to compile for the first person who solves."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import importlib, pkgutil
from numba.core import event
from numba.core.dispatcher import Dispatcher
import solvers
from solvers.planners.warm import fill_cache, warm

class Compiled(event.Listener):
    def on_start(self, started):
        kernel = started.data["dispatcher"].py_func
        if kernel.__module__.startswith("solvers."):
            print("compiled anew:", kernel.__module__, kernel.__name__)

    def on_end(self, ended):
        pass

if __name__ == "__main__":
    fill_cache(lambda family: None, processes=2)
    event.register("numba:compile", Compiled())
    warm()
    for module in pkgutil.walk_packages(solvers.__path__, "solvers."):
        if not module.name.endswith("_kernel"):  # whose own calls are compiled with the kernel called
            for name, kernel in vars(importlib.import_module(module.name)).items():
                kernel = getattr(kernel, "kernel", kernel)
                if isinstance(kernel, Dispatcher) and not kernel.signatures:
                    print("not called:", module.name, name)
"""


@pytest.mark.slow
def test_warming_compiles_every_kernel(tmp_path):
    (tmp_path / "warming.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, tmp_path / "warming.py"], capture_output=True, text=True, check=True, timeout=280
    )
    assert done.stdout == ""
