"""Members of a group that exchange rows of tokens over gloo: ``exchanging FOLDER``; process 0 writes results.json.

Every member knows what all have, so that it works out for itself what should come.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from explorer.runner.model.exchanges import group
from explorer.runner.model.exchanges.group import Along
from explorer.runner.model.exchanges.routed import (
    BY_EXPERT,
    BY_TOKEN,
    Numbers,
    Rows,
    counted,
    exchange,
    product,
    put_back,
)

MEMBERS, EXPERTS, ROWS, WIDTH = 4, 8, 12, 4
LIKED = {"as they like": tuple(range(EXPERTS)), "one expert": (3,), "all but one member's": (0, 1, 2, 6, 7)}
"""Which experts rows choose among."""
CHANGES = (
    (BY_TOKEN, BY_EXPERT), (BY_EXPERT, BY_TOKEN), (BY_TOKEN, "R"), (BY_TOKEN, "R+"), (BY_TOKEN, "S(1)"),
    (BY_EXPERT, "R"), (BY_EXPERT, "R+"), (BY_EXPERT, "S(1)"), ("S(1)", BY_EXPERT), ("S(1)", BY_TOKEN),
    ("P", BY_EXPERT), ("P", BY_TOKEN), ("R", BY_EXPERT), ("R", BY_TOKEN),
)  # fmt: skip


def shown(whole: Tensor, experts: Tensor, placement: str, member: int) -> Tensor:
    """A member's part of rows that are in the order of all. experts: of all rows, in the order of members."""
    order = torch.argsort(experts, stable=True)
    if placement == BY_TOKEN:
        return whole[torch.argsort(order)[member * ROWS : (member + 1) * ROWS].sort().values]
    if placement == BY_EXPERT:
        return whole[experts[order] // (EXPERTS // MEMBERS) == member]
    if placement == "S(1)":
        return group.share_of(whole, Along(1), MEMBERS, member)
    return whole if placement != "P" else whole * (1 + member) / sum(range(1, MEMBERS + 1))


def gradient_of(weights: Tensor, after: str, member: int) -> Tensor:
    """What comes back for a result: of R+ a part of it."""
    return shown(weights, EVERY, "P" if after == "R+" else after, member)


def furthest(before: str, after: str, member: int, counts: Tensor) -> float:
    """Of what comes of a change from what should, forward and backward."""
    whole, weights = (torch.rand(MEMBERS * ROWS, WIDTH, dtype=torch.float64) for _ in range(2))
    own = shown(whole, EVERY, before, member).requires_grad_()
    rows = exchange(own, counts, before, after)
    rows.backward(gradient_of(weights, after, member))
    expected = shown(weights, EVERY, "R" if before == "P" else before, member)
    assert own.grad is not None
    errors = [rows.detach() - shown(whole, EVERY, after, member), own.grad - expected]
    return max(float(each.abs().max()) if each.numel() else 0.0 for each in errors)


def mixed(member: int, counts: Tensor) -> float:
    """Rows to their experts, multiplied there, and put where choices find them: as the whole would be."""
    rows, matrices = torch.rand(MEMBERS * ROWS, WIDTH).double(), torch.rand(EXPERTS, WIDTH, 3).double()
    own = group.share_of(matrices, Along(0), MEMBERS, member)
    chosen = EVERY[member * ROWS : (member + 1) * ROWS]
    order = torch.argsort(chosen, stable=True)
    there = exchange(rows[member * ROWS : (member + 1) * ROWS][order], counts, BY_TOKEN, BY_EXPERT)
    made = product(there, own, counts, BY_EXPERT)
    numbers = torch.argsort(order)
    everywhere = exchange(numbers, counts, "S(0)", "R", Numbers(True))
    total = put_back(made, everywhere, counts)
    dist.all_reduce(total)
    expected = torch.stack([row @ matrices[expert] for row, expert in zip(rows, EVERY, strict=True)])
    return float((total - expected).abs().max())


def main(folder: Path) -> None:
    global EVERY
    torch.set_num_threads(1)
    member = next((number for number in range(1, MEMBERS) if os.fork() == 0), 0)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=member, world_size=MEMBERS)
    group.join(group.Members(member, MEMBERS, dist.group.WORLD))
    results: dict[str, float] = {}
    for name, liked in LIKED.items():
        torch.manual_seed(1)
        EVERY = torch.tensor(liked)[torch.randint(len(liked), (MEMBERS * ROWS,))]
        counts = counted(EVERY[member * ROWS : (member + 1) * ROWS].sort().values, EXPERTS, everywhere=False)
        for before, after in CHANGES:
            results[f"{name}: {before} to {after}"] = furthest(before, after, member, counts)
        results[f"{name}: mixed"] = mixed(member, counts)
        results[f"{name}: least rows"] = float(min(Rows(group.here(), counts).held))
    every: list[dict[str, float]] = [{} for _ in range(MEMBERS)]
    dist.all_gather_object(every, results)
    if member == 0:
        worst = {key: max(each[key] for each in every) for key in results}
        (folder / "results.json").write_text(json.dumps(worst))
    dist.destroy_process_group()


EVERY = torch.empty(0)
"""The expert of every row, of one member after the other."""

if __name__ == "__main__":
    main(Path(sys.argv[1]))
