"""A local search over drafts from beginning to end."""

from __future__ import annotations

import random
from collections.abc import Callable

from solvers.coarsening.coarsen import Condensed
from solvers.pipelines.descent.descend import Descent, Estimated
from solvers.pipelines.descent.space import Space
from solvers.plan.drafts import Draft


def improve(
    condensed: Condensed,
    draft: Draft,
    estimate: Callable[[Draft], Estimated],
    check: Callable[[], None],
    rng: random.Random,
    *,
    evaluations: int,
) -> Draft:
    """The best draft found, never a worse one than ``draft``: by bytes over the memory caps, then by seconds.

    evaluations: calls of ``estimate`` at most. The rest is as in `Descent`.
    """
    descent = Descent(Space(condensed), draft, estimate, check, rng)
    for _ in descent.run(evaluations):
        pass
    return descent.draft
