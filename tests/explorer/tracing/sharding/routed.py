"""Rows of a mixture on the members of a group: who has tokens sorts their rows, who has experts gets the rows of these.

Each member numbers its rows by itself, so that what these calls do is written down here and not cut from a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from explorer.tracing.captured import Captured, Node
from explorer.tracing.sharding.choices import Choices
from explorer.tracing.sharding.loops import Route
from solvers.noncontiguous.expert_packing import pack_experts
from solvers.problem.collectives import UNSUMMED, WHOLE

Tensors = dict[str, torch.Tensor]


class Mixture(nn.Module):
    """Tokens that choose ``chosen`` of ``experts`` experts by their width; [samples, tokens, width] -> a loss."""

    def __init__(self, experts: int = 8, chosen: int = 2, width: int = 16, hidden: int = 24) -> None:
        super().__init__()
        self.chosen, self.experts = chosen, experts
        self.first = nn.Linear(width, width, bias=False)
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.rand(experts, width, hidden))
        self.bias = nn.Parameter(torch.rand(experts, hidden))
        self.down = nn.Parameter(torch.rand(experts, hidden, width))
        self.shared = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.first(x).flatten(0, 1)
        weights, experts = self.router(rows).softmax(-1).topk(self.chosen, dim=-1)
        expert_of, order = torch.sort(experts.reshape(-1))
        counts = torch.histc(expert_of.float(), bins=self.experts, min=0, max=self.experts - 1)
        ends = counts.cumsum(0, dtype=torch.int32)
        given = rows[order.floor_divide(self.chosen)]
        made = torch._grouped_mm(given, self.up, offs=ends) + self.bias[expert_of]
        made = torch._grouped_mm(made.relu(), self.down, offs=ends)
        made = made * weights.reshape(-1)[order][:, None]
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=order.device)
        mixed = made[back].view(-1, self.chosen, x.shape[-1]).sum(1)
        return (mixed + self.shared(rows)).square().sum()


def product(rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Each row times the matrix of the expert that it is of."""
    parts = torch.tensor_split(rows, ends[:-1].long())
    return torch.cat([part @ matrix for part, matrix in zip(parts, matrices, strict=True)])


def experts_of(choices: Choices, value: str, route: Route = Route.EXPERT) -> str:
    """The value that says of which expert, or which choice, each of the rows of another is."""
    known = choices.known
    rows = known.dimensions.leaves(known.of[value][0])
    return next(
        name
        for name, of in known.routes.items()
        if of is route and known.dimensions.leaves(known.of[name][0])[-1] == rows[-1]
    )


def slots(choices: Choices) -> list[int]:
    """The expert in every slot of the devices of a group, those of one after those of another: in order, or where some
    are redundant, packed as if later ones were chosen more."""
    experts = _experts(choices)
    if not choices.redundant:
        return list(range(experts))
    each = (experts + choices.redundant) // choices.degree
    packing = pack_experts([1 + expert for expert in range(experts)], choices.degree, each, 1000)
    return [expert for device in packing.devices for expert in device]


def slots_of_rows(choices: Choices, experts: torch.Tensor) -> torch.Tensor:
    """Which slot takes each row, given the experts of all rows: replicas of an expert in turn."""
    places: dict[int, list[int]] = {}
    for slot, expert in enumerate(slots(choices)):
        places.setdefault(expert, []).append(slot)
    taken = [0] * len(places)
    chosen = []
    for expert in map(int, experts):
        chosen.append(places[expert][taken[expert] % len(places[expert])])
        taken[expert] += 1
    return torch.tensor(chosen, dtype=torch.long)


def is_by_expert(part: Captured, name: str) -> bool:
    return part.whole[name].placement.startswith("E")


def exchanged(choices: Choices, part: Captured, node: Node, members: Sequence[Tensors]) -> list[torch.Tensor]:
    """Rows of tokens to those who have their experts, or back; the rows of each member."""
    source, output = node.tensors[0][1], node.outputs[0]
    rows = [values[source] for values in members]
    if is_by_expert(part, output):
        rows = [each + member * _counted(choices, source, len(each)) for member, each in enumerate(rows)]
    experts = [values[experts_of(choices, output.partition("@")[0])] for values in members]
    taken = slots_of_rows(choices, torch.cat(experts))
    order = torch.argsort(taken, stable=True)
    if is_by_expert(part, output):
        own = taken[order] // (len(slots(choices)) // len(members))
        return [torch.cat(rows)[order][own == member] for member in range(len(members))]
    whole = torch.empty_like(torch.cat(rows))
    whole[order] = torch.cat(rows)
    return list(whole.split([len(each) for each in experts]))


def _counted(choices: Choices, name: str, rows: int) -> int:
    """By how much the numbers of one member are behind those of the next, of so many rows each."""
    route = choices.known.routes.get(name)
    maker = choices.captured.nodes[choices.made_by[choices.source(name)]]
    each = maker.constants.get("other", 1) if route is Route.TOKEN else 1
    assert isinstance(each, int)
    return rows // each if route in (Route.TOKEN, Route.ORDER) else 0


def _experts(choices: Choices) -> int:
    return choices.known.dimensions.length(sorted(choices.experts)[:1])


def put_back(choices: Choices, node: Node, members: Sequence[Tensors], member: int) -> torch.Tensor:
    """A member's rows of its experts where they came from, nothing for all others."""
    source = node.tensors[0][1]
    value = source.partition("@")[0]
    experts = [values[experts_of(choices, value)] for values in members]
    taken = slots_of_rows(choices, torch.cat(experts))
    place = torch.argsort(torch.argsort(taken, stable=True)).split([len(each) for each in experts])
    orders = [torch.argsort(values[experts_of(choices, value, Route.ORDER)]) for values in members]
    place = torch.cat([rows[order] for rows, order in zip(place, orders, strict=True)])
    before = sum(len(values[source]) for values in members[:member])
    return rows_of(members[member][source], place - before)


def rows_of(table: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Those that are there; nothing for others."""
    there = (places >= 0) & (places < len(table))
    nothing = table.new_zeros(1, *table.shape[1:])
    return torch.cat([table, nothing])[torch.where(there, places, len(table))]


def run(choices: Choices, part: Captured, node: Node, members: Sequence[Tensors], member: int) -> torch.Tensor | None:
    """A call of a member that works on sorted rows; None for all others."""
    values = members[member]
    tensors = [values[name] for _, name in node.tensors]
    if "grouped_mm" in node.target:
        ends = tensors[2]
        if is_by_expert(part, node.outputs[0]):
            value = experts_of(choices, node.outputs[0])
            taken = slots_of_rows(choices, torch.cat([each[value] for each in members]))
            first = member * len(tensors[1])
            counts = torch.bincount(taken, minlength=len(slots(choices)))
            ends = counts[first : first + len(tensors[1])].cumsum(0)
        elif part.whole[node.outputs[0]].placement.startswith("S(0"):
            counts = torch.bincount(values[experts_of(choices, node.outputs[0])], minlength=len(tensors[1]))
            ends = counts.cumsum(0)
        return product(tensors[0], tensors[1], ends)
    if node.target == "aten.index_put_":
        return torch.argsort(tensors[1])
    if node.target != "aten.index":
        return None
    table, numbers = (name for _, name in node.tensors)
    route = choices.known.routes.get(numbers.partition("@")[0])
    if route is Route.BACK and is_by_expert(part, table):
        return put_back(choices, node, members, member)
    if route is Route.EXPERT and is_by_expert(part, node.outputs[0]):
        own = slots(choices)[member * len(tensors[0]) : (member + 1) * len(tensors[0])]
        return tensors[0][torch.tensor([own.index(int(expert)) for expert in tensors[1]], dtype=torch.long)]
    whole = part.whole[table].placement in (WHOLE, UNSUMMED) and part.whole[numbers].placement.startswith("S")
    if route in (Route.TOKEN, Route.ORDER) and whole:
        return tensors[0][tensors[1] + member * len(tensors[0]) // len(members)]
    return tensors[0][tensors[1]] if route is not None else None


def in_order(experts: torch.Tensor) -> list[torch.Tensor]:
    """Sorted, rows of one expert in the order in which they were."""
    order = torch.argsort(experts, stable=True)
    return [experts[order], order]
