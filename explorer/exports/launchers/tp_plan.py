"""Hugging Face's tp_plan: a style for each module that is divided.

Grammar: transformers 5.23, distributed/tensor_parallel.py: module names, with "*" for the number of a layer, to
"colwise", "colwise_gather_output", "rowwise", "embedding_rowwise", "embedding_colwise" or "sequence_parallel";
`from_pretrained(..., tp_plan=...)` and the attribute `_tp_plan` take such a mapping.
"""

from __future__ import annotations

import json
import re

from explorer.exports.layers.chain import numbers
from explorer.exports.layers.recomputation import not_recomputed
from explorer.exports.layers.styles import COLUMNS, EMBEDDING, LINEAR, Style, Styles, styles_of
from explorer.exports.layers.written import Written
from solvers.formats.plan_json import PlanFile

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|\Z)")


def tp_plan(file: PlanFile, nearest: bool = False) -> Written:
    """As JSON. nearest: changes nothing. Raises UnsupportedProblem if the plan cannot be said so."""
    graph = file.problem.as_traced.graph
    styles = styles_of(graph, "Hugging Face's tp_plan")
    lost = [*styles.lost, f"the degree: start {graph.tensor_parallel} processes for each group"]
    lost += numbers(file.problem) + not_recomputed(file.problem, file.plan)
    if len(file.plan.stages) > 1:
        lost.append("stages, replicas and micro-batches: this says how modules are divided alone")
    if styles.divided_loss:
        lost.append(f"the loss over divided classes: scores of {styles.head} are gathered first")
    plan: dict[str, str] = {}
    separate: dict[str, str] = {}
    for module, style in styles.of.items():
        pattern, word = _NUMBER.sub("*", module), _word(style, styles, module)
        if plan.setdefault(pattern, word) != word:
            separate[module] = word
    text = json.dumps({**plan, **separate}, indent=2) + "\n"
    return Written(text, tuple(lost))


def _word(style: Style, styles: Styles, module: str) -> str:
    if style.kind == EMBEDDING:
        return "embedding_colwise" if style.by == COLUMNS else "embedding_rowwise"
    if style.kind != LINEAR:
        return "sequence_parallel"
    if style.by != COLUMNS:
        return "rowwise"
    return "colwise_gather_output" if style.gives is None or module == styles.head else "colwise"
