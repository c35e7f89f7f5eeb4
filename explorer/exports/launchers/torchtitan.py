"""torchtitan's pipeline settings, as TOML.

Grammar: torchtitan 0.3.0, torchtitan/config/configs.py, `ParallelismConfig.module_fqns_per_model_part`: a list of
names for every stage, each of a child of the model or of an element of a list that is one ("layers.0");
distributed/pipeline_parallel.py: `_split_module` leaves out the other children, and
`_get_pp_rank_to_stage_indices_mapping` gives stage s to rank s modulo the degree. The same names are keys of its TOML
files before 0.3.
"""

from __future__ import annotations

import json

from explorer.exports.layers.chain import Chain, chain_of, headline, losses
from explorer.exports.layers.nearest import laid_out
from explorer.exports.layers.units import Units
from explorer.exports.layers.written import Written, comments, told
from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import PlanFile

ONE_STAGE = {"gpipe": "GPipe", "1f1b": "1F1B"}
"""Schedules of torch with one stage a rank, by the names of our pipelines."""
SEVERAL = {"interleaved": "Interleaved1F1B", "zero-bubble": "InterleavedZeroBubble"}
"""Those with several."""


def torchtitan(file: PlanFile, nearest: bool = False) -> Written:
    """Raises UnsupportedProblem if the plan cannot be said so."""
    layout, changed = laid_out(chain_of(file), nearest=nearest)
    chain, lost = layout.chain, list[str]()
    _check_names(layout.model)
    schedule = check_rounds(chain, "torchtitan")
    if schedule is None:
        lost.append(
            "the order of micro-batches, which is none of torch's schedules: export torch-actions too, and set"
            ' pipeline_parallel_schedule = "PipelineScheduleMulti" and pipeline_parallel_schedule_csv'
        )
        schedule = "1F1B" if chain.per_rank == 1 else "Interleaved1F1B"
    lost += layout.loose() + losses(chain, ("order", "replicas"))
    parts = ",\n".join("    " + json.dumps(list(names)) for names in layout.names(copied=True))
    text = comments([headline(file), *told(lost, changed)]) + (
        "\n[parallelism]\n"
        f"pipeline_parallel_degree = {len(chain.devices)}\n"
        f"data_parallel_replicate_degree = {chain.replicas}\n"
        f'pipeline_parallel_schedule = "{schedule}"\n'
        f"pipeline_parallel_microbatch_size = {chain.micro_batch // chain.replicas}\n"
        f"module_fqns_per_model_part = [\n{parts},\n]\n"
        "\n[training]\n"
        f"local_batch_size = {chain.problem.mini_batch // chain.replicas}\n"
    )
    return Written(text, tuple(lost), tuple(changed))


def check_rounds(chain: Chain, launcher: str) -> str | None:
    """torch's name for the schedule, None if it has none. Raises UnsupportedProblem if stages are dealt out to ranks
    in another way than in rounds."""
    if not chain.in_rounds:
        held = ", ".join(f"stage {stage} on rank {rank}" for stage, rank in enumerate(chain.rank_of))
        raise UnsupportedProblem(
            f"{launcher} gives stage s to rank s modulo the number of ranks, and the plan has {held}"
        )
    return (ONE_STAGE if chain.per_rank == 1 else SEVERAL).get(chain.plan.pipeline)


def _check_names(model: Units) -> None:
    for unit in model.units:
        parts = unit.name.split(".")
        deepest = 2 if unit.listed else 1
        if len(parts) > deepest or (len(parts) == 2 and not parts[1].isdigit()):
            raise UnsupportedProblem(
                f"{unit.name} lies deeper than torchtitan splits: children of the model, and elements of its lists"
            )
