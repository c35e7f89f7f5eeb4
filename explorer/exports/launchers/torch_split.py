"""Where torch.distributed.pipelining cuts a model: the `split_spec` of `pipeline()`, and the modules of every stage.

Grammar: torch 2.13, torch/distributed/pipelining/_IR.py: `pipeline(module, mb_args, split_spec={path: SplitPoint})`,
`SplitPoint.BEGINNING` or `END` of the module at that path, at any depth.
"""

from __future__ import annotations

import json

from explorer.exports.layers.chain import Chain, chain_of, headline, losses
from explorer.exports.layers.cuts import split_points
from explorer.exports.layers.nearest import whole_modules
from explorer.exports.layers.units import check_shared, cut_units, units_of
from explorer.exports.layers.written import Written, path_of
from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import PlanFile


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
    found: list[list[str]] = [[] for _ in chain.plan.stages]
    for module, mine in stages.items():
        outer = module.rpartition(".")[0]
        if len(mine) == 1 and len(stages.get(outer, {0, 1})) > 1:
            found[min(mine)].append(path_of(module))
    return found
