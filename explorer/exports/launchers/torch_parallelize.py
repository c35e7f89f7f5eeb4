"""A function that divides a model as a plan does, with torch alone: `parallelize_module` and a style for each module.

Grammar: torch.distributed.tensor.parallel, torch 2.13: ColwiseParallel, RowwiseParallel, SequenceParallel.
"""

from __future__ import annotations

from explorer.exports.layers.chain import headline, numbers
from explorer.exports.layers.recomputation import not_recomputed
from explorer.exports.layers.styles import COLUMNS, EMBEDDING, LINEAR, Style, Styles, styles_of
from explorer.exports.layers.written import Written, comments, loss_comments
from explorer.words import text
from solvers.formats.plan_json import PlanFile

PROGRAM = '''
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

DEGREE = {degree}
"""Members of a group."""
STYLES = {{
{styles}}}


def parallelize(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Divide the parameters of a model over a mesh of one dimension, in place."""
    if mesh.size() != DEGREE:
        raise ValueError(f"the plan is for groups of {{DEGREE}}, and the mesh has {{mesh.size()}} devices")
    return parallelize_module(model, mesh, STYLES)


def mesh_of(device: str = "cuda") -> DeviceMesh:
    """The mesh of this process's group; the processes of a group follow one another."""
    shape = (dist.get_world_size() // DEGREE, DEGREE)
    return init_device_mesh(device, shape, mesh_dim_names=("group", "tensor"))["tensor"]
'''


def torch_parallelize(file: PlanFile, nearest: bool = False) -> Written:
    """As a Python module. nearest: changes nothing. Raises UnsupportedProblem if the plan cannot be said so."""
    graph = file.problem.as_traced.graph
    styles = styles_of(graph, "parallelize_module")
    lost = [*styles.lost]
    lost += numbers(file.problem) + not_recomputed(file.problem, file.plan)
    if len(file.plan.stages) > 1:
        lost.append("stages, replicas and micro-batches: this says how modules are divided alone")
    gathered = [module for module, style in styles.of.items() if style.by == COLUMNS and style.takes is not None]
    if len(gathered) > 1:
        lost.append(
            f"that products of one input gather it once: each of {text.count(len(gathered))} does so for itself"
        )
    lost.append("numbers of heads: a module that reshapes to all heads has to ask for its own, with -1")
    if styles.divided_loss:
        lost.append(
            f"where the loss is made: scores of {styles.head} stay divided, so compute it within"
            " torch.distributed.tensor.parallel.loss_parallel()"
        )
    lines = "".join(f'    "{module}": {_written(style, styles, module)},\n' for module, style in styles.of.items())
    program = PROGRAM.format(degree=graph.tensor_parallel, styles=lines)
    return Written(comments([headline(file), *loss_comments(lost, [])]) + program, tuple(lost))


def _layout(dimension: int | None) -> str:
    return "Replicate()" if dimension is None else f"Shard({dimension})"


def _written(style: Style, styles: Styles, module: str) -> str:
    if style.kind not in (LINEAR, EMBEDDING):
        return f"SequenceParallel(sequence_dim={style.takes})"
    if style.by != COLUMNS:
        rows = f"output_layouts={_layout(style.gives)}"
        return (
            f"RowwiseParallel(input_layouts=Replicate(), {rows})"
            if style.kind == EMBEDDING
            else f"RowwiseParallel({rows})"
        )
    local = ", use_local_output=False" if module == styles.head else ""
    return f"ColwiseParallel(input_layouts={_layout(style.takes)}, output_layouts={_layout(style.gives)}{local})"
