"""Schedules of spans that are written down as values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.kernels.arrays import Ints
from solvers.plan.schedule import SPAN_KINDS, MemoryCurve, Schedule, Span, SpanColumns


def schedule_of_spans(
    spans: Sequence[Span],
    memory: tuple[MemoryCurve, ...],
    critical: tuple[int, ...] = (),
    shared: frozenset[str] = frozenset(),
) -> Schedule:
    """A schedule of spans that are there as values, ordered by start."""
    names: dict[str, int] = {}
    read = [_read(span.action) for span in spans]

    def ints(values: Sequence[int]) -> Ints:
        return np.array(values, np.int64)

    columns = SpanColumns(
        start_s=np.array([span.start_s for span in spans], np.float64),
        end_s=np.array([span.end_s for span in spans], np.float64),
        stage=ints([stage for stage, _, _ in read]),
        kind=ints([SPAN_KINDS.index(kind) for _, kind, _ in read]),
        micro_batch=ints([micro_batch for _, _, micro_batch in read]),
        operator=ints([span.operator for span in spans]),
        device=ints([span.device for span in spans]),
        to_device=ints([span.to_device for span in spans]),
        resource=ints([names.setdefault(span.resource, len(names)) for span in spans]),
        nbytes=np.array([span.nbytes for span in spans], np.float64),
        sender=ints([span.operator for span in spans]),
        reader=ints([span.operator for span in spans]),
    )
    return Schedule(columns, tuple(names), memory, critical, shared)


def _read(action: str) -> tuple[int, str, int]:
    head = action.partition(">")[0]
    digits = len(head) - len(head.lstrip("0123456789"))
    return int(head[:digits]), head[digits], int(head[digits + 1 :] or 0)
