"""The plans that workers found, packed, on the side that asks: they outlive their worker, and go to any other."""

from __future__ import annotations

from collections import Counter, OrderedDict

from explorer.question.packing import PackedGraph, PackedPlan, PackedProblem

MOST = 1024
MAX_BYTES = 256 * 2**20


class Plans:
    """The oldest go first. Graphs are kept once for all their plans."""

    def __init__(self, most: int = MOST, max_bytes: int = MAX_BYTES) -> None:
        self._most, self._max_bytes = most, max_bytes
        self._plans: OrderedDict[str, PackedPlan] = OrderedDict()
        self._graphs: dict[str, PackedGraph] = {}
        self._uses: Counter[str] = Counter()
        self.nbytes = 0

    def put(self, name: str, plan: PackedPlan) -> None:
        graph = plan.problem.graph
        if graph.key not in self._graphs:
            self._graphs[graph.key] = graph
            self.nbytes += len(graph.content)
        shared = PackedPlan(
            PackedProblem(self._graphs[graph.key], plan.problem.content), plan.result, plan.reference
        )  # fmt: skip
        self._plans[name] = shared
        self._uses[graph.key] += 1
        self.nbytes += _own_bytes(shared)
        while len(self._plans) > self._most or (self.nbytes > self._max_bytes and len(self._plans) > 1):
            self._drop()

    def get(self, name: str) -> PackedPlan | None:
        return self._plans.get(name)

    def _drop(self) -> None:
        _, plan = self._plans.popitem(last=False)
        key = plan.problem.graph.key
        self.nbytes -= _own_bytes(plan)
        self._uses[key] -= 1
        if not self._uses[key]:
            del self._uses[key]
            self.nbytes -= len(self._graphs.pop(key).content)


def _own_bytes(plan: PackedPlan) -> int:
    return len(plan.problem.content) + len(plan.result)
