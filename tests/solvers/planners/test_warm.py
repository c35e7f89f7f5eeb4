"""Warming leaves nothing to compile for the first person who solves."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import solvers.planners.warm as module

SCRIPT = """
import importlib, pkgutil
from numba.core import event
import solvers
from solvers.kernels.lazy import Kernel
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
                if isinstance(kernel, Kernel) and not kernel.dispatcher.signatures:
                    print("not called:", module.name, name)
"""


def test_the_command_is_never_silent_for_long(monkeypatch):
    message = threading.Event()

    def slow(on_done, families, processes):
        on_done(families[0])
        assert message.wait(240)

    def record(*words, **_):
        capture.append(*words)
        if "..." in words[0]:
            message.set()

    capture = []
    monkeypatch.setattr(module, "SAY_S", 0.01)
    monkeypatch.setattr(module, "fill_cache", slow)
    monkeypatch.setattr(module, "print", record, raising=False)
    assert module.main(["page", "plans"]) == 0
    assert capture[0] == "  page: compiled"
    assert capture[1].startswith("  compiling plans ... ")


@pytest.mark.slow
def test_warming_compiles_every_kernel(tmp_path):
    (tmp_path / "warming.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, tmp_path / "warming.py"], capture_output=True, text=True, check=True, timeout=280
    )
    assert done.stdout == ""
