"""What a transfer carries: the operator that sends, and the one that waits for it."""

from __future__ import annotations

from solvers.plan.schedule import Schedule

Ends = tuple[int, int]
UNKNOWN: Ends = (-1, -1)


def endpoints(schedule: Schedule) -> list[Ends]:
    """Per span (sender, reader), as operators: of a transfer the one that made what is sent, and the first to run
    that reads it; of an operator, itself twice.

    -1 where a span is no single operator, or nobody reads what is sent (the sender's half of a transfer).
    """
    return list(zip(schedule.columns.sender.tolist(), schedule.columns.reader.tolist(), strict=True))
