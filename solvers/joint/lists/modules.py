"""The layer split of a model whose layers are unrolled over time: layers as its modules tell them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.joint.lists.layers import layer_split
from solvers.joint.passes.model import PassModel
from solvers.kernels.arrays import Floats, Ints


def module_order(model: PassModel) -> Ints:
    """Groups module by module, a permutation: inside a module its parts in the order in which they first run.

    The steps of an unrolled layer are one module, so layers come one after the other, where a topological order
    has them side by side. Operators of no module stay where they are in topological order.
    """
    operators = model.problem.graph.operators
    first: dict[str, int] = {}
    paths = []
    for number, group in enumerate(model.groups):
        parts = operators[group[0]].module_path.split(".") if operators[group[0]].module_path else []
        prefixes = [".".join(parts[: i + 1]) for i in range(len(parts))]
        for prefix in prefixes:
            first.setdefault(prefix, number)
        paths.append(prefixes)
    keys = [(*(first[prefix] for prefix in prefixes), number) for number, prefixes in enumerate(paths)]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def split_by_modules(
    model: PassModel, order: Ints, caps: Floats, devices: Sequence[int], *, transfers: bool
) -> Ints | None:
    """`layer_split` of the groups in the order of `module_order`: the device of every group, [groups], or None."""
    parts = layer_split(model, [model.groups[g] for g in order], caps, devices, transfers=transfers)
    if parts is None:
        return None
    place = np.empty(len(order), np.int64)
    place[order] = parts
    return place
