"""Layers hold: a file imports only from its own layer and from layers below, and no imports are cyclic."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OWN = ("solvers", "explorer", "demo_models")

LADDER = (
    # what is asked, and what is answered
    "solvers.kernels",
    "solvers.errors",
    "solvers.problem",
    "solvers.plan",
    # what a plan costs, and what no plan can beat
    "solvers.evaluation",
    "solvers.formats",
    "solvers.verify.arrays",
    "solvers.verify.work",
    "solvers.verify.travel",
    "solvers.verify",
    "solvers.bounds.makespan",
    "solvers.bounds",
    # what planners build with
    "solvers.search",
    "solvers.programs.processes",
    "solvers.programs",
    "solvers.coarsening",
    "solvers.bounds.cover",
    "solvers.schedules.ordering",
    "solvers.schedules.nodes",
    "solvers.schedules",
    # the families of methods, each with its planners on top
    "solvers.contiguous",
    "solvers.contiguous.planners",
    "solvers.noncontiguous",
    "solvers.noncontiguous.planners",
    "solvers.latency",
    "solvers.latency.planners",
    "solvers.joint.passes",
    "solvers.joint.lists",
    "solvers.joint.annealing",
    "solvers.joint.exact",
    "solvers.joint",
    "solvers.joint.planners",
    "solvers.pipelines.recomputation",
    "solvers.pipelines",
    "solvers.pipelines.tree",
    "solvers.pipelines.timing",
    "solvers.pipelines.descent",
    "solvers.pipelines.selective",
    "solvers.pipelines.piper",
    "solvers.pipelines.planners",
    # all of them behind one door
    "solvers.planners",
    "solvers",
    "demo_models",
    # from what a person names to a problem
    "explorer.files",
    "explorer.words",
    "explorer.tracing.shims",
    "explorer.tracing",
    "explorer.tracing.files",
    "explorer.tracing.sharding",
    "explorer.costs",
    "explorer.costs.fit",
    "explorer.costs.times",
    "explorer.question.written",
    "explorer.question.models",
    "explorer.question.nodes",
    "explorer.question.graphs",
    "explorer.question",
    # what was found before
    "explorer.library",
    # a plan really runs
    "explorer.runner.scripts",
    "explorer.runner.bundles",
    "explorer.runner.start",
    "explorer.runner.targets",
    "explorer.runner.model.exchanges",
    "explorer.runner.model",
    "explorer.runner.measuring",
    "explorer.runner.engine",
    "explorer.runner.verifying",
    "explorer.runner",
    "explorer.runner.training",
    # what is shown
    "explorer.view.plan_types",
    "explorer.view.graph",
    "explorer.view.timeline",
    "explorer.view.instants",
    "explorer.view",
    "explorer.view.lessons",
    "explorer.view.pictures",
    "explorer.reviews",
    "explorer.exports.layers",
    "explorer.exports.launchers",
    "explorer.exports",
    "explorer.exports.configurations",
    "explorer.sweeps.execution",
    "explorer.sweeps",
    "explorer.sweeps.inference",
    "explorer.measured",
    "explorer.measured.traces",
    "explorer.jobs",
    "explorer.jobs.workers",
    # what people touch
    "explorer.web.contract",
    "explorer.web.state",
    "explorer.web.parts",
    "explorer.web.layout",
    "explorer.web.redraw",
    "explorer.web.handlers",
    "explorer.web.serving",
    "explorer.web",
    "explorer.cli.terminal",
    "explorer.cli.reports",
    "explorer.cli.listings",
    "explorer.cli",
    "explorer.notebook",
    "explorer.api",
    "explorer",
    "explorer.__main__",
)
"""Floors, the lowest first: folders, and the few files that stand beside folders at the top."""

NUMBERS = frozenset({"numpy", "numba", "networkx"})
OUTSIDE: dict[str, frozenset[str]] = {
    "solvers": NUMBERS,
    "solvers.errors": frozenset(),
    "solvers.programs.processes": frozenset(),
    "solvers.problem": frozenset({"numpy"}),
    "solvers.plan": frozenset({"numpy", "networkx"}),
    "solvers.programs": NUMBERS | {"pulp", "highspy", "ortools", "pymetis"},
    "solvers.bounds.cover": NUMBERS | {"highspy"},
    "solvers.noncontiguous": NUMBERS | {"ortools"},
    "solvers.latency": NUMBERS | {"ortools"},
    "solvers.joint.exact": NUMBERS | {"ortools"},
    "demo_models": frozenset({"torch"}),
    "explorer": frozenset({"numpy"}),
    "explorer.words": frozenset(),
    "explorer.tracing": frozenset({"numpy", "torch", "networkx"}),
    "explorer.tracing.files.onnx_child": frozenset({"numpy", "onnx"}),
    "explorer.question.models": frozenset({"torch"}),
    "explorer.question.cluster_file": frozenset({"yaml"}),
    "explorer.runner": frozenset({"numpy", "torch"}),
    "explorer.runner.targets.ray_driver": frozenset({"ray"}),
    "explorer.sweeps.execution.ray_driver": frozenset({"ray", "numpy"}),
    "explorer.api": frozenset({"numpy", "torch"}),
    "explorer.view": frozenset({"numpy", "networkx"}),
    "explorer.view.pictures": frozenset({"PIL"}),
    "explorer.reviews": frozenset({"numpy", "networkx"}),
    "explorer.notebook": frozenset({"networkx", "IPython", "anywidget", "traitlets", "plotly", "pandas"}),
    "explorer.web": frozenset({"dash", "dash_cytoscape", "dash_ag_grid",
                               "fastapi", "starlette", "uvicorn", "websockets", "pydantic"}),
}  # fmt: skip
"""What a package may import from elsewhere, by the longest prefix."""

LIGHT = {"explorer"}
"""Faces above all that they import: `explorer` gives names of the interface when they are asked for."""

MOST_ENTRIES = 18
"""Of one folder, without its `__init__.py`: what a person takes in at a glance, and a few more."""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {module_of(path): path for package in OWN for path in sorted((ROOT / package).rglob("*.py"))}
FOLDERS = sorted({path.parent for path in FILES.values()})


def within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")


def floor(module: str) -> str:
    """The folder of a file (its own, for a package's face), or the file itself where it stands beside folders."""
    if module in LADDER or FILES[module].name == "__init__.py":
        return module
    return module.rpartition(".")[0]


def allowed_outside(module: str) -> frozenset[str]:
    return OUTSIDE[max((prefix for prefix in OUTSIDE if within(module, prefix)), key=len)]


@cache
def imports(module: str) -> frozenset[str]:
    """Full names of what a file imports, at its top or inside functions, but not for type checking."""
    modules: set[str] = set()
    todo: list[ast.AST] = [ast.parse(FILES[module].read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative imports hide the floor"
            assert node.module is not None
            modules |= {full if (full := f"{node.module}.{a.name}") in FILES else node.module for a in node.names}
        todo.extend(ast.iter_child_nodes(node))
    return frozenset(modules)


def own_imports(module: str) -> set[str]:
    return {name for name in imports(module) if name in FILES and name != module}


def circle(graph: Mapping[str, Iterable[str]]) -> str:
    """A circle of a graph, as one line; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " -> ".join(reversed(error.args[1]))
    return ""


@pytest.mark.parametrize("module", FILES)
def test_imports_only_from_below(module: str) -> None:
    here = floor(module)
    assert here in LADDER, f"{here} has no place in the ladder: say what it stands on"
    for name in imports(module):
        package = name.split(".")[0]
        if package in OWN:
            assert name in FILES, f"{module} imports {name}, which is not there"
            if module not in LIGHT:
                assert LADDER.index(floor(name)) <= LADDER.index(here), f"{module} imports {name}, which is above it"
        elif package not in sys.stdlib_module_names:
            assert package in allowed_outside(module), f"{module} imports {name}"


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circle({module: own_imports(module) for module in FILES if module not in LIGHT}) == ""


def test_no_folders_import_each_other_in_a_circle() -> None:
    between: dict[str, set[str]] = {}
    for module in FILES.keys() - LIGHT:
        between.setdefault(floor(module), set()).update(floor(name) for name in own_imports(module))
    assert circle({here: others - {here} for here, others in between.items()}) == ""


def test_every_floor_of_the_ladder_is_there() -> None:
    assert [name for name in LADDER if name not in FILES] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=module_of)
def test_every_folder_says_what_belongs_there(folder: Path) -> None:
    face = folder / "__init__.py"
    assert face.is_file(), f"{folder} has no __init__.py"
    assert ast.get_docstring(ast.parse(face.read_text(encoding="utf-8"))), f"{face} says nothing"


@pytest.mark.parametrize("top", [*OWN, "tests", "assets", "docs"])
def test_no_folder_holds_more_than_one_can_take_in(top: str) -> None:
    for folder in [ROOT / top, *(path for path in (ROOT / top).rglob("*") if path.is_dir())]:
        seen = [p for p in folder.iterdir() if p.name not in {"__init__.py", "__pycache__", "artifacts"}]
        entries = [p.name for p in seen if p.is_dir() or p.suffix in {".py", ".md", ".css", ".js", ".svg", ".sh"}]
        assert len(entries) <= MOST_ENTRIES, f"{folder} holds {len(entries)}: {sorted(entries)}"
