"""Arguments of Megatron-LM.

Grammar: `--pipeline-model-parallel-layout`, megatron-core 0.16.1, core/transformer/pipeline_parallel_layer_layout.py:
stages with "|" between, E embedding, t a layer, L the loss; "t*3" is "ttt". Stage s of a layout is of rank s modulo
the pipeline's size, in round s divided by it.
"""

from __future__ import annotations

from explorer.exports.launchers.counted import counted_layers
from explorer.exports.launchers.torchtitan import check_rounds
from explorer.exports.layers.chain import chain_of, headline, losses, numbers
from explorer.exports.layers.nearest import laid_out
from explorer.exports.layers.written import Written, comments, told
from solvers.formats.plan_json import PlanFile


def megatron(file: PlanFile, nearest: bool = False) -> Written:
    """As a fragment of a shell script. Raises UnsupportedProblem if the plan cannot be said so."""
    layout, changed = laid_out(chain_of(file), nearest=nearest)
    chain, lost = layout.chain, list[str]()
    counts = counted_layers(layout, "Megatron")
    check_rounds(chain, "Megatron")
    own = "1f1b" if chain.per_rank == 1 else "interleaved"
    if chain.plan.pipeline != own:
        lost.append(f"the order of micro-batches: Megatron runs {own}, the plan is {chain.plan.pipeline}")
    stages = len(chain.plan.stages)
    if not chain.recomputing:
        recompute = ""
    elif len(chain.recomputing) == stages:
        recompute = "    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1\n"
    else:
        recompute = ""
        lost += losses(chain, ("numbers", "order", "replicas"))
    lost += numbers(chain.problem)
    lost.append("the model: its layers must be those that were planned")
    if chain.replicas > 1:
        lost.append(f"{chain.replicas} replicas: start {len(chain.devices) * chain.replicas} processes, data parallel")
    text = comments([headline(file), *told(lost, changed)]) + (
        "\nPIPELINE_ARGS=(\n"
        f"    --num-layers {sum(counts)}\n"
        f"    --pipeline-model-parallel-size {len(chain.devices)}\n"
        f'    --pipeline-model-parallel-layout "{layout_text(counts)}"\n'
        f"    --micro-batch-size {chain.micro_batch // chain.replicas}\n"
        f"    --global-batch-size {chain.problem.mini_batch}\n"
        f"{recompute})\n"
    )
    return Written(text, tuple(lost), tuple(changed))


def layout_text(counts: list[int]) -> str:
    """[3, 2] -> "Ettt|ttL"; from five layers on "t*5"."""
    stages = ["t" * count if count < 5 else f"t*{count}" for count in counts]
    stages[0] = "E" + stages[0]
    stages[-1] += "L"
    return "|".join(stages)
