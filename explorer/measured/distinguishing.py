"""Whether two plans that ran in turns can be told apart by what they took."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median


def gain(old: Sequence[Sequence[float]], new: Sequence[Sequence[float]], noise: float) -> float | None:
    """The share of an iteration's time that ``new`` takes less than ``old`` (more, if below 0), or None where nobody
    can tell.

    old, new: of each round, the seconds of its iterations; rounds of the two took turns. noise: variation of a fixed
    piece of work meanwhile, as a share. The plans are apart if every round of the one has a shorter median than every
    round of the other, and the medians over all differ by more than the noise.
    """
    before, after = ([median(times) for times in rounds if times] for rounds in (old, new))
    if not before or not after:
        return None
    shorter = max(after) < min(before)
    longer = min(after) > max(before)
    found = 1 - median(time for times in new for time in times) / median(time for times in old for time in times)
    return found if (shorter or longer) and abs(found) > noise else None
