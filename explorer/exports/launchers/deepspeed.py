"""A `PipelineModule` of DeepSpeed with the plan's partition and its configuration, as a module of Python; of a plan
without a pipeline that shards training states, or divides tensors, the configuration alone.

Grammar: deepspeed 0.19.8, deepspeed/runtime/pipe/module.py: a sequence of layers, each fed with what the one before
gave; `self.parts`, [stages + 1] positions in it, which `_partition_layers` fills in. `partition_method` has no way to
state them ("uniform", "parameters", "type:..."), so that method is the one that is replaced here. Its engine asserts
that ZeRO is of stage 1 at most. Of the configuration: deepspeed/runtime/config.py, precision_config.py, and
`_do_optimizer_sanity_check` of engine.py, which says what goes together; for `tensor_parallel`
https://www.deepspeed.ai/tutorials/autotp-training: with ZeRO of stage 0, 1 or 2.
"""

from __future__ import annotations

import json
from itertools import accumulate

from explorer.exports.layers.chain import Chain, chain_of, headline, losses
from explorer.exports.layers.divided import division_losses
from explorer.exports.layers.nearest import laid_out
from explorer.exports.layers.recomputation import Again, not_recomputed
from explorer.exports.layers.units import Layout
from explorer.exports.layers.written import Written, comments, loss_comments
from explorer.view.timeline.order import launched_words
from explorer.words import text
from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import PlanFile
from solvers.problem.problem import Pipeline, Precision
from solvers.problem.training import ZERO_GRADIENTS, ZERO_PARAMETERS

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


_ENGINE = '''
import deepspeed

CONFIG = {config}


def initialize(model, **options):
    """What deepspeed.initialize gives of the whole model; give it model_parameters and an optimizer."""
    return deepspeed.initialize(model=model, config=CONFIG, **options)
'''


def deepspeed(file: PlanFile, nearest: bool = False) -> Written:
    """Raises UnsupportedProblem if the plan cannot be said so."""
    chain = chain_of(file)
    degree, zero = chain.graph.tensor_parallel, chain.problem.zero
    if len(chain.plan.stages) == 1 and (degree > 1 or zero):
        return _engine(chain)
    if degree > 1:
        raise UnsupportedProblem(
            f"the plan divides tensors over {degree} devices and has {len(chain.plan.stages)} stages; DeepSpeed divides"
            " tensors of models without a pipeline"
        )
    if zero >= ZERO_GRADIENTS:
        raise UnsupportedProblem(
            f"the plan has {len(chain.plan.stages)} stages and ZeRO-{zero}; DeepSpeed's pipelines run with ZeRO-1 at"
            " most (plan with --zero 1)"
        )
    layout, changed = laid_out(chain, nearest=nearest)
    chain, lost = layout.chain, list[str]()
    if chain.per_rank > 1:
        raise UnsupportedProblem(
            f"a rank has {chain.per_rank} stages; DeepSpeed gives each rank one (plan without interleaving)"
        )
    lost += filter(None, [launched_words(chain.problem, chain.plan, "DeepSpeed", Pipeline.ONE_F_ONE_B)])
    config, unsaid = _config(chain)
    lost += layout.outside_notes() + losses(chain, ("numbers", "order", "recompute", "replicas")) + unsaid
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
    body = _MODULE.format(layers=layers, parts=parts, config=config, recompute=recompute, stages=len(stages))
    return Written(comments([headline(file), *loss_comments(lost, changed)]) + body, tuple(lost), tuple(changed))


def _engine(chain: Chain) -> Written:
    """Of a plan of one stage: DeepSpeed's engine runs the model as it is. Raises UnsupportedProblem."""
    degree, zero = chain.graph.tensor_parallel, chain.problem.zero
    if degree > 1 and zero >= ZERO_PARAMETERS:
        raise UnsupportedProblem(
            f"the plan divides tensors and has ZeRO-{zero}; DeepSpeed divides tensors with ZeRO-2 at most (plan with"
            " --zero 2)"
        )
    config, lost = _config(chain)
    lost += losses(chain, ("numbers", "order", "replicas")) + division_losses(chain, "DeepSpeed", tokens=False)
    if degree > 1:
        lost.append("where products are: DeepSpeed knows them in models of Hugging Face (AutoTP)")
    count = degree * chain.replicas
    head = comments([headline(chain.file), f"It is for {count} processes.", *loss_comments(lost, ())])
    return Written(head + _ENGINE.format(config=config), tuple(lost))


def _config(chain: Chain) -> tuple[dict[str, object], list[str]]:
    """(DeepSpeed's configuration; sentences on what it does not say)."""
    problem, zero = chain.problem, chain.problem.zero
    config: dict[str, object] = {
        "train_micro_batch_size_per_gpu": chain.micro_batch // chain.replicas,
        "gradient_accumulation_steps": chain.micro_batches,
    }
    if chain.graph.tensor_parallel > 1:
        config["tensor_parallel"] = {"autotp_size": chain.graph.tensor_parallel}
    else:  # with the former DeepSpeed counts all processes as replicas
        config = {"train_batch_size": problem.mini_batch, **config}
    if not problem.training:
        return config, []
    if zero:
        config["zero_optimization"] = {"stage": zero}
    precision, lost = _precision(chain)
    lost.append(f"{problem.optimizer.value}, which the plan's memory counts on: give DeepSpeed the same optimizer")
    return config | precision, lost


def _precision(chain: Chain) -> tuple[dict[str, object], list[str]]:
    """In 16 bits DeepSpeed keeps fp32 masters and states by default, and takes another setting with ZeRO alone;
    so it does gradients in fp32."""
    problem = chain.problem
    dtypes = {tensor.dtype for tensor in chain.graph.tensors}
    short = next((name for dtype, name in (("bfloat16", "bf16"), ("float16", "fp16")) if dtype in dtypes), None)
    if short is None:
        return {}, []
    settings: dict[str, object] = {"enabled": True}
    config: dict[str, object] = {short: settings}
    if problem.precision is Precision.PURE:
        if not problem.zero or short == "fp16":
            reason = "DeepSpeed keeps fp32 masters and states"
            return config, [f"states in {short}, which the plan's memory counts on: {reason}"]
        settings |= {"bf16_master_weights_and_grads": True, "bf16_optimizer_states": True}
    elif problem.precision is Precision.MIXED_FP32_GRADIENTS:
        if not problem.zero:
            return config, ["gradients in fp32, which the plan's memory counts on: DeepSpeed has them with ZeRO alone"]
        config["data_types"] = {"grad_accum_dtype": "fp32"}
    return config, []


def _side_by_side(layout: Layout) -> list[str]:
    """A sentence on the modules that read of others than the one before. Raises UnsupportedProblem if a layer does."""
    units = layout.model.units
    modules = []
    for i, reads in enumerate(_reads(layout)):
        if i == 0 or reads == {i - 1}:
            continue
        if units[i].listed and i != layout.model.layers[0]:
            others = text.listing([units[j].name for j in sorted(reads)]) if reads else "the model's inputs"
            raise UnsupportedProblem(
                f"{units[i].name} reads of {others}; DeepSpeed feeds a layer with what the one before gave"
                f" ({units[i - 1].name})"
            )
        modules.append(units[i].name)
    advice = "DeepSpeed feeds a layer with what the one before gave, so make one layer of modules that run side by side"
    return [f"what {text.listing(modules)} read: {advice}"] if modules else []


def _reads(layout: Layout) -> list[set[int]]:
    """Per unit the units that it reads of, by way of operators between them too."""
    graph, units = layout.chain.graph, layout.model.units
    unit_of = {o: i for i, unit in enumerate(units) for o in unit.operators}
    behind: dict[int, set[int]] = {}
    reads: list[set[int]] = [set() for _ in units]
    for o in graph.topological_order:
        if o not in layout.chain.homes or graph.operators[o].replicable:
            continue
        sources: set[int] = set()
        for p in graph.predecessors[o]:
            sources |= {unit_of[p]} if p in unit_of and p in behind else behind.get(p, set())
        behind[o] = sources
        if o in unit_of:
            reads[unit_of[o]] |= sources - {unit_of[o]}
    return reads
