"""A file imports only from its own layer and from layers below (docs: architecture)."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OWN = ("solvers", "explorer", "demo_models")

LAYERS: tuple[tuple[str, ...], ...] = (
    ("solvers.errors", "solvers.graph", "solvers.cluster", "solvers.problem", "solvers.plan", "solvers.schedule",
     "solvers.result"),
    ("solvers.verify",),  # shares the types and nothing else
    ("solvers.formats", "solvers.kernels",
     "solvers.evaluation", "solvers.chains", "solvers.downsets", "solvers.coarsen", "solvers.traffic",
     "solvers.contracted", "solvers.trivial_merges", "solvers.variants", "solvers.variant_chains",
     "solvers.chain_search",
     "solvers.segments", "solvers.sets", "solvers.agglomerate",
     "solvers.order_check", "solvers.crossings", "solvers.orders", "solvers.in_flight",
     "solvers.patterns",
     "solvers.stage_actions", "solvers.zero_bubble", "solvers.interleaving", "solvers.flight_room",
     "solvers.arrange", "solvers.own_order", "solvers.even_cuts",
     "solvers.eager_order", "solvers.drafts", "solvers.realise", "solvers.mapping", "solvers.effort",
     "solvers.pipelines", "solvers.piper",
     "solvers.joint", "solvers.list_scheduling", "solvers.integer_program", "solvers.cp_solver",
     "solvers.load", "solvers.contiguity", "solvers.assemble",
     "solvers.evaluate", "solvers.latency.model", "solvers.latency.plans", "solvers.bounds",
     "solvers.groups", "solvers.makespan_bounds",
     "solvers.check", "solvers.pipedream_optimizer", "solvers.lines",
     "solvers.balanced_cut", "solvers.static_sizes",
     "solvers.iteration_chain"),
    ("solvers",),
    ("demo_models", "explorer.tracing", "explorer.costs", "explorer.runner", "explorer.view", "explorer.settings",
     "explorer.files", "explorer.quantities", "explorer.pins", "explorer.accelerators", "explorer.clusters",
     "explorer.cluster_file", "explorer.problems", "explorer.loading", "explorer.planner_choice"),
    ("explorer",),
    ("explorer.web", "explorer.widget"),
    ("explorer.cli", "explorer.__main__"),
)  # fmt: skip
"""Lowest first. The longest prefix of a module's name tells its layer; "solvers" and "explorer" alone
stand for what is not named: the search (monitor, planners, solve), the jobs and the interface."""

OUTSIDE: dict[str, frozenset[str]] = {
    "solvers": frozenset({"numpy", "numba", "networkx", "pulp", "highspy", "ortools", "pymetis"}),
    "demo_models": frozenset({"torch"}),
    "explorer": frozenset({"numpy"}),
    "explorer.tracing": frozenset({"numpy", "torch", "networkx"}),
    "explorer.runner": frozenset({"numpy", "torch"}),
    "explorer.runner.targets.ray_driver": frozenset({"ray"}),
    "explorer.api": frozenset({"numpy", "torch"}),
    "explorer.view": frozenset({"numpy", "networkx"}),
    "explorer.web": frozenset({"dash", "dash_cytoscape", "dash_mantine_components", "dash_ag_grid", "plotly",
                               "fastapi", "starlette", "uvicorn", "websockets", "pydantic"}),
    "explorer.widget": frozenset({"anywidget", "traitlets", "ipywidgets", "plotly"}),
    "solvers.verify": frozenset({"numpy", "networkx"}),
    **dict.fromkeys(LAYERS[0], frozenset({"numpy"})),
}  # fmt: skip
"""What a package may import from elsewhere, by the longest prefix."""

LIGHT = {"explorer"}
"""`explorer/__init__.py` gives names of the interface, which it imports when they are asked for."""

FILES = sorted(path for package in OWN for path in (ROOT / package).rglob("*.py"))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")


def layer(module: str) -> int:
    return max((len(prefix), i) for i, group in enumerate(LAYERS) for prefix in group if within(module, prefix))[1]


def allowed_outside(module: str) -> frozenset[str]:
    return OUTSIDE[max((prefix for prefix in OUTSIDE if within(module, prefix)), key=len)]


def imports(path: Path) -> set[str]:
    """Full names of what a file imports, at its top or inside functions, but not for type checking."""
    found: set[str] = set()
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the layer"
            assert node.module is not None
            found |= {full if is_own_module(full := f"{node.module}.{a.name}") else node.module for a in node.names}
        todo.extend(ast.iter_child_nodes(node))
    return found


def is_own_module(name: str) -> bool:
    place = ROOT.joinpath(*name.split("."))
    return name.split(".")[0] in OWN and (place.with_suffix(".py").exists() or place.is_dir())


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_only_from_below(path: Path) -> None:
    module = module_of(path)
    for name in imports(path):
        package = name.split(".")[0]
        if package in OWN:
            if module not in LIGHT:
                assert layer(name) <= layer(module), f"{module} imports {name}, which is above it"
        elif package not in sys.stdlib_module_names:
            assert package in allowed_outside(module), f"{module} imports {name}"
