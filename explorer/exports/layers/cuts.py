"""Where one stage ends and the next begins, as torch names it: before or after a module, at any depth."""

from __future__ import annotations

from explorer.exports.layers.chain import Chain
from explorer.exports.layers.written import path_of
from solvers.errors import UnsupportedProblem

BEGINNING, END = "BEGINNING", "END"


def split_points(chain: Chain) -> tuple[dict[str, str], list[str]]:
    """Module path -> BEGINNING or END, in the order of the forward, as `torch.distributed.pipelining.pipeline` takes
    them (`SplitPoint`); and what they do not say.

    torch splits a forward in the order in which it runs, so that must run the stages one after the other: operators
    that are copied into several stages (masks, tables of angles) are in the first.

    Raises UnsupportedProblem if it does not, or if no module begins or ends where the plan cuts.
    """
    graph, lost = chain.graph, []
    at = {o: min(stages) for o, stages in chain.homes.items()}
    forward = sorted(at)
    copied = [graph.operators[o].name for o in forward if len(chain.homes[o]) > 1]
    if copied:
        lost.append(f"{', '.join(copied[:3])}: a copy in every stage that reads it; torch runs one and sends it on")
    latest = forward[0]
    for o in forward:
        if at[o] < at[latest]:
            if not graph.operators[latest].replicable:
                raise UnsupportedProblem(
                    f"the forward runs {graph.operators[latest].name} (stage {at[latest]}) before"
                    f" {graph.operators[o].name} (stage {at[o]}), and torch splits it in the order in which it runs"
                )
            lost.append(f"{graph.operators[latest].name}: in stage {at[o]}, where the forward comes to it")
        latest = o
    points: dict[str, str] = {}
    ordered = _sunk(forward, at)
    for stage in range(1, len(chain.plan.stages)):
        index = next(i for i, o in enumerate(forward) if ordered[i] >= stage)
        module, kind = _point(chain, forward, index)
        if module in points:
            raise UnsupportedProblem(f"the module {module} is a stage by itself, and torch takes one cut a module")
        points[path_of(module)] = kind
    return points, lost


def _sunk(forward: list[int], at: dict[int, int]) -> list[int]:
    """Stages of the operators, those that ran too early sunk to what follows: ascending."""
    stages = [at[o] for o in forward]
    for i in range(len(stages) - 2, -1, -1):
        stages[i] = min(stages[i], stages[i + 1])
    return stages


def _point(chain: Chain, forward: list[int], index: int) -> tuple[str, str]:
    """The outermost module that begins at this operator, or else ends before it."""
    graph = chain.graph
    paths = [graph.operators[o].module_path.split(".") for o in forward]
    before, here = paths[index - 1], paths[index]
    common = 0
    while common < min(len(before), len(here)) and before[common] == here[common]:
        common += 1
    for path, kind in ((here, BEGINNING), (before, END)):
        for depth in range(common + 1, len(path) + 1):
            module = path[:depth]
            inside = [i for i, other in enumerate(paths) if other[:depth] == module]
            once = inside[-1] - inside[0] + 1 == len(inside)
            edge = inside[0] == index if kind == BEGINNING else inside[-1] == index - 1
            if module != [""] and once and edge and not _is_list(module, paths):
                return ".".join(module), kind
    a, b = (graph.operators[forward[i]].name for i in (index - 1, index))
    raise UnsupportedProblem(
        f"the plan cuts between {a} and {b}, where no module begins or ends that runs once (--nearest cuts between"
        " layers)"
    )


def _is_list(module: list[str], paths: list[list[str]]) -> bool:
    """A list of modules (its children are numbered, and it runs nothing itself) is never called, so is not split at."""
    depth = len(module)
    below = {path[depth] if len(path) > depth else "" for path in paths if path[:depth] == module}
    return all(name.isdigit() for name in below)
