"""A program of a hundred lines that runs the plan with torch alone: `torchrun script.py`.

It makes the model by its reference, splits it with `torch.distributed.pipelining.pipeline` at the plan's split points,
and runs the plan's order in torch's own runtime (`_PipelineScheduleRuntime`, torch 2.13).
"""

from __future__ import annotations

import json
import pprint

from demo_models import MODELS
from explorer.exports.launchers.script_text import SCRIPT
from explorer.exports.launchers.torch_actions import check_trains
from explorer.exports.launchers.torch_split import cut_chain
from explorer.exports.layers.chain import headline, numbers
from explorer.exports.layers.recomputation import not_recomputed
from explorer.exports.layers.written import Written, comments, loss_comments
from explorer.question.models.libraries import library_of
from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import PlanFile
from solvers.problem.problem import Optimizer, Precision

OPTIMIZERS = {
    Optimizer.SGD: "torch.optim.SGD",
    Optimizer.MOMENTUM: "partial(torch.optim.SGD, momentum=0.9)",
    Optimizer.ADAM: "torch.optim.Adam",
    Optimizer.ADAMW: "torch.optim.AdamW",
}


def torch_script(file: PlanFile, nearest: bool = False) -> Written:
    """Raises UnsupportedProblem if the plan cannot be run so."""
    problem = file.problem
    make = _making(file.reference)
    chain, points, lost, changed = cut_chain(file, nearest=nearest)
    check_trains(chain)
    if chain.replicas > 1:
        raise UnsupportedProblem(
            f"every stage has {chain.replicas} replicas, and the script has one process a stage (plan with --replicate"
            " 1)"
        )
    if problem.optimizer not in OPTIMIZERS:
        raise UnsupportedProblem(f"the script has no optimizer {problem.optimizer}; plan with --optimizer adam")
    if problem.precision is not Precision.PURE:
        raise UnsupportedProblem(f"the script does not train in {problem.precision} precision; plan with pure")
    if {tensor.dtype for tensor in problem.graph.tensors if "float" in tensor.dtype} != {"float32"}:
        lost += numbers(problem, optimizer=False)
    if not chain.recomputing:
        lost += not_recomputed(problem, chain.plan, "wrap the modules in torch.utils.checkpoint")
    lost.append("memory: every rank makes the whole model before it keeps its stages")
    lost.append("data: samples are the model's example, shifted; put your own in the place of `samples`")
    script = SCRIPT
    for name, value in {
        "HEAD": comments([headline(file), *loss_comments(lost, changed)]).rstrip(),
        "MAKE": make,
        "SPLIT_SPEC": pprint.pformat(points, width=110, sort_dicts=False),
        "ORDER": "[\n" + "".join(f"    {json.dumps(' '.join(row))},\n" for row in chain.rows()) + "]",
        "RANK_OF": repr(list(chain.rank_of)),
        "MICRO_BATCHES": str(chain.micro_batches),
        "MICRO_BATCH": str(chain.micro_batch),
        "RECOMPUTE": repr(set(chain.recomputing) or ()),
        "OPTIMIZER": OPTIMIZERS[problem.optimizer],
        "RANKS": str(len(chain.devices)),
    }.items():
        script = script.replace(f"<{name}>", value)
    return Written(script, tuple(lost), tuple(changed))


def _making(reference: str) -> str:
    """The line that makes module and example inputs. Raises UnsupportedProblem for what is no code by name."""
    if reference in MODELS:
        return f"from demo_models import MODELS\n\n    return MODELS[{json.dumps(reference)}].build()"
    module, separator, attribute = reference.partition(":")
    names = [*module.split("."), attribute]
    if separator and library_of(reference) is None and all(name.isidentifier() and name.isascii() for name in names):
        return f"from {module} import {attribute} as made\n\n    return made()"
    raise UnsupportedProblem(
        f"the script makes its model by name, a demo or package.module:callable, and this plan is of"
        f" {reference[:60] or 'a graph'!r}; torch-split says where to cut your own"
    )
