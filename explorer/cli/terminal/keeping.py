"""The flags that say which library of plans a command reads and keeps in, and what solves through it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from explorer.library.place import OFF, VARIABLE, graphs_beside, library_path, path_of

if TYPE_CHECKING:
    from explorer.library.cached_solver import CachedSolver
    from explorer.question.settings import Settings
    from solvers.formats.workload import Workload


def add_library(parser: argparse.ArgumentParser, again: str = "--fresh") -> None:
    """Which library, or none. again: the flag that searches for what is known, "" for none."""
    group = parser.add_argument_group(
        "library",
        "Answers are cached and reused for the same question: docs/review.md. `placement-explorer plans` lists it.",
    )
    which = group.add_mutually_exclusive_group()
    add_library_file(which)
    which.add_argument("--no-library", action="store_true", help="look nothing up, and keep nothing")
    if again:
        what = "search even where the answer is known, and keep the better one"
        group.add_argument(again, dest="again", action="store_true", help=what)


def add_library_file(parser: argparse.ArgumentParser | argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--library",
        metavar="FILE",
        help="where answers are kept ($PLACEMENT_EXPLORER_LIBRARY, else plans.sqlite in the user's data folder)",
    )


def library_of(args: argparse.Namespace) -> Path | None:
    """The path of the library that the flags say; None for none."""
    if getattr(args, "no_library", False):  # `plans` is about nothing else
        return None
    return library_path() if args.library is None else path_of(args.library)


def graphs_of(args: argparse.Namespace) -> Path | None:
    """Where graphs of demos are kept beside that library; None without one."""
    return graphs_beside(library_of(args))


def traced(args: argparse.Namespace, model: str, *, keeping: bool = True, settings: Settings | None = None) -> Workload:
    """The graph of a model, as the flags say, with a line while it is traced. keeping: whether graphs of demos are kept
    beside the library. settings: of a plan, by whose devices tensors are divided. Raises PlacementError."""
    graphs = graphs_of(args) if keeping else None
    workload = _traced(args, model, graphs, settings)
    packing = getattr(args, "packings", {}).get(model)
    return workload if packing is None else packing.noted(workload)


def _traced(args: argparse.Namespace, model: str, graphs: Path | None, settings: Settings | None) -> Workload:
    from explorer.cli.terminal.progress import working
    from explorer.question.loading import load

    with working(f"tracing {model}") as count:
        if settings is not None:
            from explorer.sweeps.divided import DividedModel, has_degree

            if has_degree(model):
                return DividedModel(model, args.training, args.dtype, count, graphs, settings).as_named()
        return load(model, training=args.training, dtype=args.dtype, on_call=count, graphs=graphs)


def declare_library(args: argparse.Namespace) -> None:
    """Which library the flags say, for this process and those that it starts."""
    path = library_of(args)
    os.environ[VARIABLE] = OFF if path is None else str(path)


def solver_of(args: argparse.Namespace, model: str) -> CachedSolver:
    """What solves questions of a model through the library, and reports trouble with it on stderr. To be closed."""
    from explorer.library.cached_solver import CachedSolver

    return CachedSolver(library_of(args), model, fresh=args.again, report=report)


def report(line: str) -> None:
    print(f"placement-explorer: {line}", file=sys.stderr)
