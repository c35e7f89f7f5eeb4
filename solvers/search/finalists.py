"""Plans that are worth a second judgement: by another time than the objective."""

from __future__ import annotations

from solvers.plan.plan import Plan
from solvers.plan.result import Alternative

NEAR = 1.0
"""How much slower than the best, relatively, a plan may be that is judged again."""
OF_A_FORM = 3
MOST = 24
"""So many are judged again at most."""

Form = tuple[int, int, int]


class Finalists:
    """Of all plans offered, the fastest few of every form.

    What a run of a plan takes beside its operators depends on how many stages, micro-batches and devices there are, so
    plans of one form differ little in it.
    """

    def __init__(self) -> None:
        self._of: dict[Form, list[Alternative]] = {}

    def add(self, plan: Plan, objective_s: float, peak_bytes: float) -> None:
        """Tell a plan that fits. objective_s: seconds. peak_bytes: of the device that holds most."""
        alike = self._of.setdefault(_form(plan), [])
        if len(alike) == OF_A_FORM and objective_s >= alike[-1].objective_s:
            return
        if all(one.plan is not plan for one in alike):
            alike.append(Alternative(plan, objective_s, peak_bytes))
            alike.sort(key=lambda one: one.objective_s)
            del alike[OF_A_FORM:]

    def plans(self) -> list[Alternative]:
        """At most MOST: the fastest of each form first, then the second of each."""
        least_s = min((alike[0].objective_s for alike in self._of.values()), default=0.0)
        near = [
            (rank, one.objective_s, one)
            for alike in self._of.values()
            for rank, one in enumerate(alike)
            if one.objective_s <= least_s * (1 + NEAR)
        ]
        return [one for _, _, one in sorted(near, key=lambda each: each[:2])[:MOST]]


def _form(plan: Plan) -> Form:
    """How many stages, actions and devices."""
    return len(plan.stages), sum(map(len, plan.order)), len(plan.devices_used())
