"""torchtitan's pipeline settings, as TOML.

Grammar: torchtitan 0.3.0, torchtitan/config/configs.py, `ParallelismConfig.module_fqns_per_model_part`: a list of
names for every stage, each of a child of the model or of an element of a list that is one ("layers.0");
distributed/pipeline_parallel.py: `_split_module` leaves out the other children, and
`_get_pp_rank_to_stage_indices_mapping` gives stage s to rank s modulo the degree, or, for schedules that want it, in a
V. The same names are keys of its TOML files before 0.3. distributed/activation_checkpoint.py: `FullAC` and
`SelectiveAC`, which were mode "full" and "selective" with `selective_ac_option` "op", of the modules in the model's
list named layers.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from explorer.exports.layers.chain import Chain, chain_of, headline, losses
from explorer.exports.layers.divided import division_losses, rank_samples
from explorer.exports.layers.nearest import laid_out
from explorer.exports.layers.recomputation import Again, not_recomputed
from explorer.exports.layers.units import Layout, Units
from explorer.exports.layers.written import Written, comments, loss_comments
from explorer.view.timeline.order import launched_words
from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import PlanFile
from solvers.problem.collectives import Axis, axes_of
from solvers.problem.graph import OpGraph
from solvers.problem.problem import Pipeline
from solvers.schedules.ordering.v_shaped import is_pattern

ONE_STAGE = {"gpipe": "GPipe", "1f1b": "1F1B"}
"""Schedules of torch with one stage a rank, by the names of our pipelines."""
SEVERAL = {"interleaved": "Interleaved1F1B", "zero-bubble": "InterleavedZeroBubble", "looped-bfs": "LoopedBFS"}
"""Those with several."""
IN_A_V = {Pipeline.ZB_V: "ZBVZeroBubble", Pipeline.DUAL_PIPE_V: "DualPipeV"}
"""Those with two, in a V."""


def torchtitan(file: PlanFile, nearest: bool = False) -> Written:
    """Raises UnsupportedProblem if the plan cannot be said so."""
    layout, changed = laid_out(chain_of(file), nearest=nearest)
    chain, lost = layout.chain, list[str]()
    _check_names(layout.model)
    in_a_v = chain.in_a_v and len(chain.devices) > 1
    named = _name_in_a_v(chain) if in_a_v else check_rounds(chain, "torchtitan")
    ranks, stages = len(chain.devices), len(chain.plan.stages)
    if named is not None:
        schedule = named
        least = f"at least {stages} micro-batches, one a stage"
        wants = least if schedule in ONE_STAGE.values() else f"equal rounds of {ranks} or more micro-batches"
        check_count(chain, lambda n: takes(schedule, n, ranks, stages), f"{schedule} of torch wants {wants}")
    else:
        lost.append(
            "the order of micro-batches, which is none of torch's schedules: export torch-actions too, and set"
            ' pipeline_parallel_schedule = "PipelineScheduleMulti" and pipeline_parallel_schedule_csv'
        )
        several = ("ZBVZeroBubble",) if in_a_v else ("Interleaved1F1B", "LoopedBFS")
        names = ("1F1B", "GPipe") if chain.per_rank == 1 else several
        schedule = next(name for name in names if takes(name, chain.micro_batches, ranks, stages))
    if named == ONE_STAGE["1f1b"]:
        lost += filter(None, [launched_words(chain.problem, chain.plan, "torch", Pipeline.ONE_F_ONE_B)])
    mode, not_taken = _checkpointing(layout)
    lost += not_taken + layout.outside_notes() + losses(chain, ("order", "recompute", "replicas"))
    keys, shards = _groups(chain.graph)
    lost += division_losses(chain, "torchtitan", tokens=True) + shards
    parts = ",\n".join("    " + json.dumps(list(names)) for names in layout.names(copied=True))
    text = comments([headline(file), *loss_comments(lost, changed)]) + (
        "\n[parallelism]\n"
        f"pipeline_parallel_degree = {len(chain.devices)}\n"
        f"data_parallel_replicate_degree = {chain.replicas}\n"
        f"{keys}"
        f'pipeline_parallel_schedule = "{schedule}"\n'
        f"pipeline_parallel_microbatch_size = {rank_samples(chain, chain.micro_batch)}\n"
        f"module_fqns_per_model_part = [\n{parts},\n]\n"
        "\n[training]\n"
        f"local_batch_size = {rank_samples(chain, chain.problem.mini_batch)}\n"
        f"{mode}"
    )
    return Written(text, tuple(lost), tuple(changed))


def _groups(graph: OpGraph) -> tuple[str, list[str]]:
    """Keys that say what groups of devices divide, and a sentence on what torchtitan then does besides
    (distributed/parallel_dims.py: its shards of data are those of experts and of contexts, too)."""
    keys, lost = "", list[str]()
    for axis, members in axes_of(graph).items():
        if axis is Axis.TENSOR:
            keys += f"tensor_parallel_degree = {members}\n"
            continue
        whole = "parameters that the plan has whole at every device"
        lost.append(f"{whole}: torchtitan shards them over the {members} of a group")
        if axis is Axis.EXPERT:
            keys += f"data_parallel_shard_degree = {members}\nexpert_parallel_degree = {members}\n"
            continue
        keys += f"data_parallel_shard_degree = 1\ncontext_parallel_degree = {members}\n"
        seen = "how attention sees all tokens"
        lost.append(f"{seen}: torch gathers keys and values, or sends them round (set_rotate_method)")
    return keys, lost


def _checkpointing(layout: Layout) -> tuple[str, list[str]]:
    """The section on activation checkpointing, and a sentence on what it does otherwise than the plan."""
    problem, plan, model = layout.chain.problem, layout.chain.plan, layout.model
    if layout.again not in (Again.LAYERS, Again.OPERATORS):
        return "", not_recomputed(problem, plan)
    name = model.units[model.layers[0]].listed
    lost = []
    if name != "layers":
        lost.append(f"recomputation of {name}: torchtitan wraps the list named layers; name yours so")
    if layout.again is Again.LAYERS:
        return '\n[activation_checkpoint]\nmode = "full"  # torchtitan 0.3: FullAC.Config()\n', lost
    lost.append("recomputation by its rule: every second matrix product runs again too, which the plan keeps")
    section = '\n[activation_checkpoint]\nmode = "selective"  # torchtitan 0.3: SelectiveAC.Config()\n'
    return section + 'selective_ac_option = "op"\n', lost


def takes(schedule: str, micro_batches: int, ranks: int, stages: int) -> bool:
    """Whether torch 2.13 makes such a schedule (the constructors in torch/distributed/pipelining/schedules.py)."""
    if schedule == "1F1B":
        return micro_batches >= stages
    if schedule == IN_A_V[Pipeline.DUAL_PIPE_V]:
        return micro_batches >= stages
    if schedule in ("Interleaved1F1B", "InterleavedZeroBubble"):
        return micro_batches % max(1, micro_batches // ranks) == 0
    return True


def check_rounds(chain: Chain, launcher: str) -> str | None:
    """torch's name for the schedule, None if it has none. Raises UnsupportedProblem if stages are dealt out to ranks
    in another way than in rounds."""
    if not chain.in_rounds:
        held = ", ".join(f"stage {stage} on rank {rank}" for stage, rank in enumerate(chain.rank_of))
        raise UnsupportedProblem(
            f"{launcher} gives stage s to rank s modulo the number of ranks, and the plan has {held}"
        )
    return (ONE_STAGE if chain.per_rank == 1 else SEVERAL).get(chain.plan.pipeline)


def _name_in_a_v(chain: Chain) -> str | None:
    """torch's name for stages in a V, None unless they run in its very order."""
    same = (name for pipeline, name in IN_A_V.items() if is_pattern(chain.problem, chain.plan, pipeline))
    return next(same, None)


def _check_names(model: Units) -> None:
    for unit in model.units:
        parts = unit.name.split(".")
        deepest = 2 if unit.listed else 1
        if len(parts) > deepest or (len(parts) == 2 and not parts[1].isdigit()):
            raise UnsupportedProblem(
                f"{unit.name} lies deeper than torchtitan splits: children of the model, and elements of its lists"
            )


def check_count(chain: Chain, takes: Callable[[int], bool], wants: str) -> None:
    """Raises UnsupportedProblem, with the nearest numbers that do, if the plan's number of micro-batches is not taken.

    takes: whether the launcher runs so many. wants: what it wants, in words.
    """
    count, samples = chain.micro_batches, chain.problem.mini_batch
    if takes(count):
        return
    others = [n for n in range(1, samples + 1) if samples % (n * chain.replicas) == 0 and takes(n)]
    nearest = [str(n) for n in ([n for n in others if n < count][-1:] + [n for n in others if n > count][:1])]
    advice = f"--micro-batches {' or '.join(nearest)}" if nearest else f"another --mini-batch than {samples}"
    raise UnsupportedProblem(f"{wants}, and the plan has {count} (plan with {advice})")
