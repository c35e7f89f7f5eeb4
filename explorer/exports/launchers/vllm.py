"""vLLM's split of layers over pipeline ranks.

Grammar: `VLLM_PP_LAYER_PARTITION`, vllm/envs.py and `get_pp_indices` of vllm/distributed/utils.py: numbers of layers
with "," between, one a rank, which add up to the model's; embeddings are of the first rank, norm and head of the last.
"""

from __future__ import annotations

from explorer.exports.layers.chain import chain_of, headline, losses
from explorer.exports.layers.divided import division_losses
from explorer.exports.layers.nearest import laid_out
from explorer.exports.layers.units import counted_layers
from explorer.exports.layers.written import Written, comments, loss_comments
from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import PlanFile


def vllm(file: PlanFile, nearest: bool = False) -> Written:
    """As a fragment of a shell script. Raises UnsupportedProblem if the plan cannot be said so."""
    layout, changed = laid_out(chain_of(file), nearest=nearest)
    chain, lost = layout.chain, list[str]()
    counts = counted_layers(layout, "vLLM")
    if chain.per_rank > 1:
        raise UnsupportedProblem(
            f"a rank has {chain.per_rank} stages; vLLM gives each rank one run of layers (plan without interleaving)"
        )
    if chain.problem.training:
        lost.append(
            "that the plan is for training: its costs, memory and recomputation are not those of serving (plan with"
            " --inference)"
        )
    lost.append("batches: vLLM makes its own of the requests")
    lost += losses(chain, ("recompute", "replicas")) + division_losses(chain, "vLLM", tokens=False)
    flags = f"--pipeline-parallel-size {len(counts)}"
    if chain.graph.tensor_parallel > 1:
        flags += f" --tensor-parallel-size {chain.graph.tensor_parallel}"
    if chain.replicas > 1:
        flags += f" --data-parallel-size {chain.replicas}"
    text = comments([headline(file), *loss_comments(lost, changed)]) + (
        f"\nexport VLLM_PP_LAYER_PARTITION={','.join(map(str, counts))}\nVLLM_ARGS=({flags})\n"
    )
    return Written(text, tuple(lost), tuple(changed))
