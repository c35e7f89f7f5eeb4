"""Numbers of micro-batches that a launcher's schedule takes."""

from __future__ import annotations

from collections.abc import Callable

from explorer.exports.layers.chain import Chain
from solvers.errors import UnsupportedProblem


def check_count(chain: Chain, takes: Callable[[int], bool], wants: str) -> None:
    """Raises UnsupportedProblem, with the nearest numbers that do, if the plan's number of micro-batches is not taken.

    takes: whether the launcher runs so many. wants: what it wants, in words.
    """
    count, samples = chain.micro_batches, chain.problem.mini_batch
    if takes(count):
        return
    others = [n for n in range(1, samples + 1) if samples % (n * chain.replicas) == 0 and takes(n)]
    nearest = [str(n) for n in ([n for n in others if n < count][-1:] + [n for n in others if n > count][:1])]
    advice = f"--micro-batches {' or '.join(nearest)}" if nearest else f"another --mini-batch than {samples}"
    raise UnsupportedProblem(f"{wants}, and the plan has {count} (plan with {advice})")
