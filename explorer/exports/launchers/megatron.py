"""Arguments of Megatron-LM.

Grammar: `--pipeline-model-parallel-layout`, megatron-core 0.16.1, core/transformer/pipeline_parallel_layer_layout.py:
stages with "|" between, E embedding, t a layer, L the loss; "t*3" is "ttt". Stage s of a layout is of rank s modulo
the pipeline's size, in round s divided by it. core/transformer/transformer_config.py: `--recompute-granularity` full
runs layers again, so many at a time, whose number divides the layers of every stage (transformer_block.py), selective
the modules of `--recompute-modules` in every layer. pipeline_parallel/schedules.py: interleaved, micro-batches come in
groups of the pipeline's size.
"""

from __future__ import annotations

from math import gcd

from explorer.exports.launchers.torchtitan import check_count, check_rounds
from explorer.exports.layers.chain import chain_of, headline, numbers
from explorer.exports.layers.divided import attention_ways, division_losses, rank_samples, tokens_divided
from explorer.exports.layers.nearest import laid_out
from explorer.exports.layers.recomputation import Again, not_recomputed, peaks_without, regions_again
from explorer.exports.layers.units import Layout, counted_layers
from explorer.exports.layers.written import Written, comments, loss_comments
from explorer.view.timeline.order import launched_words
from explorer.words import text
from solvers.formats.plan_json import PlanFile
from solvers.problem.collectives import Axis, axes_of
from solvers.problem.graph import OpGraph
from solvers.problem.problem import Pipeline


def megatron(file: PlanFile, nearest: bool = False) -> Written:
    """As a fragment of a shell script. Raises UnsupportedProblem if the plan cannot be said so."""
    layout, changed = laid_out(chain_of(file), nearest=nearest)
    chain, lost = layout.chain, list[str]()
    counts = counted_layers(layout, "Megatron")
    check_rounds(chain, "Megatron")
    ranks = len(chain.devices)
    if chain.per_rank > 1:
        wants = f"interleaved Megatron wants a multiple of {ranks} micro-batches, one a rank"
        check_count(chain, lambda n: n % ranks == 0, wants)
    own = Pipeline.ONE_F_ONE_B if chain.per_rank == 1 else Pipeline.INTERLEAVED
    lost += filter(None, [launched_words(chain.problem, chain.plan, "Megatron", own)])
    recompute, not_taken = _recompute(layout, counts)
    lost += not_taken
    lost += numbers(chain.problem) + division_losses(chain, "Megatron")
    lost.append("the model: its layers must be those that were planned")
    members = chain.graph.tensor_parallel
    if chain.replicas > 1:
        lost.append(f"{chain.replicas} replicas: start {ranks * chain.replicas * members} processes, data parallel")
    groups = "".join(f"    {flag}\n" for flag in _groups(chain.graph))
    script = comments([headline(file), *loss_comments(lost, changed)]) + (
        "\nPIPELINE_ARGS=(\n"
        f"    --num-layers {sum(counts)}\n{groups}"
        f"    --pipeline-model-parallel-size {ranks}\n"
        f'    --pipeline-model-parallel-layout "{layout_text(counts)}"\n'
        f"    --micro-batch-size {rank_samples(chain, chain.micro_batch)}\n"
        f"    --global-batch-size {chain.problem.mini_batch}\n" + (f"    {recompute}\n" if recompute else "") + ")\n"
    )
    return Written(script, tuple(lost), tuple(changed))


def _groups(graph: OpGraph) -> list[str]:
    """Arguments that say what groups of devices divide."""
    flags = []
    for axis, members in axes_of(graph).items():
        if axis is Axis.EXPERT:
            flags.append(f"--expert-model-parallel-size {members}")
        elif axis is Axis.CONTEXT:
            rings, heads = attention_ways(graph)
            way = "p2p" if rings >= heads else "a2a"
            flags += [f"--context-parallel-size {members}", f"--cp-comm-type {way}"]
        else:
            flags.append(f"--tensor-model-parallel-size {members}")
            flags += ["--sequence-parallel"] if tokens_divided(graph) else []
    return flags


def _recompute(layout: Layout, counts: list[int]) -> tuple[str, list[str]]:
    """Arguments that run forwards again as the plan does, and a sentence on what they leave out.

    counts: layers of every stage.
    """
    problem, plan, model = layout.chain.problem, layout.chain.plan, layout.model
    whole = "--recompute-granularity full --recompute-method uniform --recompute-num-layers"
    operators = layout.chain.graph.operators
    if layout.again is Again.LAYERS:
        return f"{whole} 1", []
    if layout.again is Again.STAGES:
        length = gcd(*counts)  # of a run of layers, in all stages
        outside = [unit.name for i, unit in enumerate(model.units) if i not in model.layers]
        line = f"recomputation of what is in no layer ({text.listing(outside)})"
        line += "" if max(counts) == length else f", nor of more than {text.plural(length, 'layer')} as one"
        return f"{whole} {length}", [f"{line}, which Megatron keeps{peaks_without(problem, plan)}"]
    if layout.again is Again.OPERATORS:
        again = [operators[o].op_type for o in regions_again(problem) if not operators[o].cached]
        attention = any("softmax" in each for each in again)
        modules = ["core_attn", "layernorm"] if attention else ["layernorm"]
        line = f"recomputation of all that is cheap: Megatron runs {' and '.join(modules)} again and keeps the rest"
        flags = f"--recompute-granularity selective --recompute-modules {' '.join(modules)}"
        return flags, [line + peaks_without(problem, plan)]
    return "", not_recomputed(problem, plan)


def layout_text(counts: list[int]) -> str:
    """[3, 2] -> "Ettt|ttL"; from five layers on "t*5"."""
    stages = ["t" * count if count < 5 else f"t*{count}" for count in counts]
    stages[0] = "E" + stages[0]
    stages[-1] += "L"
    return "|".join(stages)
