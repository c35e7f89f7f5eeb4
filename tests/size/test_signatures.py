"""What a public function takes and gives is said: no `Any` in its signature, but where somebody else states it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MAY = {
    "*.__torch_function__": "torch calls it with whatever was called",
    "*.__torch_dispatch__": "torch calls it with whatever was called",
    "*._repr_pretty_": "IPython's printer, which need not be installed",
    "explorer/costs/curves.py:read_curves": "JSON of ours, read once, whose shape `Curve` says",
    "explorer/tracing/files/program.py:*": "JSON of torch.export's files, read node by node",
    "explorer/view/timeline/bars.py:*": "rows of mixed columns, on the way to and from `Bars`",
    "solvers/kernels/*": "numba's functions, options and events, which carry no types",
    "solvers/contiguous/walk_kernel.py:*": "kernels with a state that each search brings",
    "solvers/contiguous/downsets.py:finish": "kernels with a state that each search brings",
    "solvers/joint/exact/cp_program.py:*": "ortools, imported where a search needs it",
    "solvers/latency/positions.py:*": "ortools, imported where a search needs it",
    "solvers/noncontiguous/max_load_program.py:*": "ortools, imported where a search needs it",
    "solvers/programs/cp_*.py:*": "ortools, imported where a search needs it",
    "solvers/programs/*.py:*": "messages of child processes, JSON whose shape each program says",
    "solvers/*:payload_of": "messages of child processes, JSON whose shape each program says",
    "solvers/joint/exact/cp_grid.py:in_units": "messages of child processes, JSON whose shape each program says",
    "solvers/bounds/cover/model.py:*": "messages of child processes, JSON whose shape each program says",
    "solvers/programs/processes/*.py:*": "what a kind of process sends and takes, which the kind says",
    "*._ipython_display_": "whatever IPython says, passed on to ipywidgets",
    "*.__reduce__": "pickle's",
    "explorer/tracing/fake.py:*": "arguments of somebody's model",
    "explorer/runner/engine/shards.py:Shards.states": "what optimizers of torch keep: tensors, numbers",
    "explorer/tracing/files/onnx_child.py:inferred": "onnx's messages, which need not be installed",
    "solvers/formats/records.py:*": "JSON of any record, read and written field by field",
    "solvers/plan/result.py:Result.*": "values of plotly, networkx, pandas, which need not be there, and of a layer"
    " above",
}
"""Of names ("file:function", or "*.method") the reason why `Any` is there."""


def names_any(annotation: ast.AST | None, aliases: frozenset[str] = frozenset()) -> bool:
    """Whether an annotation is made of `Any`, or of an alias that is."""
    return annotation is not None and any(
        isinstance(node, ast.Name) and node.id in ("Any", *aliases) for node in ast.walk(annotation)
    )


def aliases_of(tree: ast.Module) -> frozenset[str]:
    """Names of a file that stand for a type made of `Any`."""
    return frozenset(
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp) and names_any(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    )


def with_any(tree: ast.Module) -> Iterator[str]:
    """The public functions and methods of a file whose signature has `Any`."""
    aliases = aliases_of(tree)

    def within(body: list[ast.stmt], prefix: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield from within(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = node.args
                taken = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
                annotations = [node.returns, *(one.annotation for one in taken if one is not None)]
                public = not node.name.startswith("_") or node.name.endswith("_")
                if public and any(names_any(one, aliases) for one in annotations):
                    yield prefix + node.name

    yield from within(tree.body, "")


@cache
def functions() -> tuple[str, ...]:
    paths = [path for folder in ("explorer", "solvers") for path in sorted((ROOT / folder).rglob("*.py"))]
    return tuple(
        f"{path.relative_to(ROOT).as_posix()}:{name}"
        for path in paths
        for name in with_any(ast.parse(path.read_text(encoding="utf-8")))
    )


def test_no_public_signature_has_any_without_a_reason() -> None:
    assert [name for name in functions() if not any(fnmatchcase(name, may) for may in MAY)] == []


@pytest.mark.parametrize("may", MAY)
def test_a_reason_that_is_no_longer_needed_is_struck_off(may: str) -> None:
    assert any(fnmatchcase(name, may) for name in functions())


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("def f(a: dict[str, Any]) -> int: ...", ["f"]),
        ("def _f(a: Any) -> Any: ...", []),
        ("class A:\n    def g(self, *a: int, **k: Any) -> None: ...", ["A.g"]),
        ("class A:\n    def __call__(self) -> list[Any]: ...", ["A.__call__"]),
        ("Json = dict[str, Any]\ndef h() -> Json | None: ...", ["h"]),
        ("def k(a: object) -> int: ...", []),
    ],
)
def test_signatures_are_read_as_they_are_written(code: str, names: list[str]) -> None:
    assert list(with_any(ast.parse(code))) == names
