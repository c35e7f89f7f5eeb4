"""Where torch.distributed.pipelining cuts a model: the `split_spec` of `pipeline()`, and the modules of every stage.

Grammar: torch 2.13, torch/distributed/pipelining/_IR.py: `pipeline(module, mb_args, split_spec={path: SplitPoint})`,
`SplitPoint.BEGINNING` or `END` of the module at that path, at any depth.
"""

from __future__ import annotations

import json

from explorer.exports.layers.chain import Chain, chain_of, headline, losses
from explorer.exports.layers.nearest import whole_modules
from explorer.exports.layers.units import check_shared, cut_units, units_of
from explorer.exports.layers.written import Written, path_of
from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import PlanFile

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


def torch_split(file: PlanFile, nearest: bool = False) -> Written:
    """As JSON. Raises UnsupportedProblem if the plan cannot be said so."""
    chain, points, lost, changed = cut_chain(file, nearest=nearest)
    lost += losses(chain)
    value = {
        "what": headline(file),
        "split_spec": points,
        "ranks": list(chain.rank_of),
        "micro_batches": chain.micro_batches,
        "micro_batch_size": chain.micro_batch // chain.replicas,
        "stages": modules_of(chain),
        "changed": changed,
        "not_said": lost,
    }
    return Written(json.dumps(value, indent=2) + "\n", tuple(lost), tuple(changed))


def cut_chain(file: PlanFile, *, nearest: bool) -> tuple[Chain, dict[str, str], list[str], list[str]]:
    """The stages, the modules they are cut at, what that does not say, and what was moved for it. nearest: whole
    layers, where no module begins or ends at a cut. Raises UnsupportedProblem."""
    chain = chain_of(file, passing_on=True)
    check_shared(chain)
    try:
        return chain, *split_points(chain), []
    except UnsupportedProblem:
        if not nearest or not cut_units(chain, units_of(chain.graph)):
            raise
    chain, moved = whole_modules(chain)
    return chain, *split_points(chain), moved


def modules_of(chain: Chain) -> list[list[str]]:
    """Per stage the outermost modules that are in it as a whole, in the order of the forward."""
    operators = chain.graph.operators
    stages: dict[str, set[int]] = {}
    for o, homes in chain.homes.items():
        parts = operators[o].module_path.split(".")
        for depth in range(1, len(parts) + 1) if parts != [""] else ():
            stages.setdefault(".".join(parts[:depth]), set()).add(min(homes))
    modules: list[list[str]] = [[] for _ in chain.plan.stages]
    for module, in_stages in stages.items():
        outer = module.rpartition(".")[0]
        if len(in_stages) == 1 and len(stages.get(outer, {0, 1})) > 1:
            modules[min(in_stages)].append(path_of(module))
    return modules
