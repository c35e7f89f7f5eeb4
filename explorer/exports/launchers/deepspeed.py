"""A `PipelineModule` of DeepSpeed with the plan's partition, as a module of Python.

Grammar: deepspeed 0.19.8, deepspeed/runtime/pipe/module.py: a sequence of layers, each fed with what the one before
gave; `self.parts`, [stages + 1] positions in it, which `_partition_layers` fills in. `partition_method` has no way to
state them ("uniform", "parameters", "type:..."), so that method is the one that is replaced here.
"""

from __future__ import annotations

import json
from itertools import accumulate

from explorer.exports.layers.chain import chain_of, headline, losses
from explorer.exports.layers.nearest import laid_out
from explorer.exports.layers.recomputation import Again, not_recomputed
from explorer.exports.layers.units import Layout
from explorer.exports.layers.written import Written, comments, told
from explorer.view.timeline.order import launched_words
from explorer.words import text
from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import PlanFile
from solvers.problem.problem import Pipeline

_MODULE = '''
import deepspeed
from deepspeed.pipe import PipelineModule

LAYERS = {layers}
PARTS = {parts}
"""Stage s has LAYERS[PARTS[s]:PARTS[s + 1]]."""
CONFIG = {config}
RECOMPUTE = {recompute}
"""How many layers run their forward again as one (0: none), and which of LAYERS do: all that are of their classes."""


class PlannedPipeline(PipelineModule):
    """Give it the layers of LAYERS, in that order: `PlannedPipeline([model.get_submodule(n) for n in LAYERS])`, or
    a callable in a layer's place where what the forward of the model does between them belongs in (see above)."""

    def __init__(self, layers, **options):
        count, again = RECOMPUTE
        if count:
            classes = {{getattr(layers[i], "typename", type(layers[i])).__name__ for i in again}}
            options.setdefault("activation_checkpoint_interval", count)
            options.setdefault("activation_checkpoint_func", deepspeed.checkpointing.non_reentrant_checkpoint)
            options.setdefault("checkpointable_layers", sorted(classes))
        super().__init__(layers, num_stages={stages}, **options)

    def _partition_layers(self, method="planned"):
        if len(self._layer_specs) != len(LAYERS):
            raise ValueError(f"planned for {{len(LAYERS)}} layers, found {{len(self._layer_specs)}}")
        stage = self._topo.get_coord(self.global_rank).pipe
        self.parts = list(PARTS)
        self._set_bounds(start=PARTS[stage], stop=PARTS[stage + 1])
'''


def deepspeed(file: PlanFile, nearest: bool = False) -> Written:
    """Raises UnsupportedProblem if the plan cannot be said so."""
    layout, changed = laid_out(chain_of(file), nearest=nearest)
    chain, lost = layout.chain, list[str]()
    if chain.per_rank > 1:
        raise UnsupportedProblem(
            f"a rank has {chain.per_rank} stages; DeepSpeed gives each rank one (plan without interleaving)"
        )
    lost += filter(None, [launched_words(chain.problem, chain.plan, "DeepSpeed", Pipeline.ONE_F_ONE_B)])
    lost += layout.loose() + losses(chain, ("order", "recompute", "replicas"))
    lost += _side_by_side(layout)
    stages = layout.names()
    layers = "[\n" + "".join(f"    {json.dumps(name)},\n" for names in stages for name in names) + "]"
    parts = [0, *accumulate(len(names) for names in stages)]
    recompute: tuple[int, list[int]] = (0, [])
    if layout.again is Again.LAYERS:
        listed = {layout.model.units[i].name for i in layout.model.layers}
        recompute = 1, [i for i, name in enumerate(name for names in stages for name in names) if name in listed]
    elif layout.again is Again.STAGES:
        recompute = max(len(names) for names in stages), list(range(parts[-1]))
    else:
        lost += not_recomputed(chain.problem, chain.plan)
    config = {
        "train_batch_size": chain.problem.mini_batch,
        "train_micro_batch_size_per_gpu": chain.micro_batch // chain.replicas,
    }
    body = _MODULE.format(
        layers=layers, parts=parts, config=json.dumps(config), recompute=recompute, stages=len(stages)
    )
    return Written(comments([headline(file), *told(lost, changed)]) + body, tuple(lost), tuple(changed))


def _side_by_side(layout: Layout) -> list[str]:
    """A sentence on the modules that read of others than the one before. Raises UnsupportedProblem if a layer does."""
    units = layout.model.units
    found = []
    for i, reads in enumerate(_reads(layout)):
        if i == 0 or reads == {i - 1}:
            continue
        if units[i].listed and i != layout.model.layers[0]:
            others = text.listing([units[j].name for j in sorted(reads)]) if reads else "the model's inputs"
            raise UnsupportedProblem(
                f"{units[i].name} reads of {others}; DeepSpeed feeds a layer with what the one before gave"
                f" ({units[i - 1].name})"
            )
        found.append(units[i].name)
    told = "DeepSpeed feeds a layer with what the one before gave, so make one layer of modules that run side by side"
    return [f"what {text.listing(found)} read: {told}"] if found else []


def _reads(layout: Layout) -> list[set[int]]:
    """Per unit the units that it reads of, by way of operators between them too."""
    graph, units = layout.chain.graph, layout.model.units
    unit_of = {o: i for i, unit in enumerate(units) for o in unit.operators}
    behind: dict[int, set[int]] = {}
    reads: list[set[int]] = [set() for _ in units]
    for o in graph.topological_order:
        if o not in layout.chain.homes or graph.operators[o].replicable:
            continue
        mine: set[int] = set()
        for p in graph.predecessors[o]:
            mine |= {unit_of[p]} if p in unit_of and p in behind else behind.get(p, set())
        behind[o] = mine
        if o in unit_of:
            reads[unit_of[o]] |= mine - {unit_of[o]}
    return reads
