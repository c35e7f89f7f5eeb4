"""The order of a plan for torch's pipeline runtime: a CSV with a row a rank, a cell an action ("0F0", "1B3").

Grammar: torch 2.13, torch/distributed/pipelining/schedules.py: `_PipelineScheduleRuntime._load_csv(file,
format="compute_only")`, which adds the messages itself; `_Action.from_str`: stage, F | B | I | W, micro-batch. Its
`_validate_schedule` wants a forward and a backward of every stage and micro-batch.
"""

from __future__ import annotations

import csv
import io

from explorer.exports.layers.chain import Chain, chain_of, losses
from explorer.exports.layers.written import Written
from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import PlanFile


def torch_actions(file: PlanFile, nearest: bool = False) -> Written:
    """Raises UnsupportedProblem if the plan cannot be said so."""
    chain = chain_of(file, passing_on=True)
    check_trains(chain)
    lost = ["which modules a stage has (torch-split says it)", "when parameters are updated: after the last action"]
    lost += [f"{each}: stages between must hand it on" for each in chain.skips(copied=True)]
    out = io.StringIO()
    csv.writer(out).writerows(chain.rows())
    return Written(out.getvalue(), tuple(lost + losses(chain, ("numbers", "order"))))


def check_trains(chain: Chain) -> None:
    """Raises UnsupportedProblem for a plan that torch's runtime would refuse: it wants backwards."""
    if not chain.problem.training:
        raise UnsupportedProblem("torch's pipeline runtime takes orders with a backward of every micro-batch only")
    for number, stage in enumerate(chain.plan.stages):
        kinds = {a.kind for row in chain.plan.order for a in row if a.stage == number}
        if not kinds & {"B", "W"}:
            name = chain.graph.operators[stage.operators[0]].name
            raise UnsupportedProblem(
                f"stage {number} ({name}, ...) has no backward, and torch's pipeline runtime wants one of every stage"
            )
