"""A run laid over its prediction: three errors apart, and every action, operator, link and device beside what
was expected of it. Pure: a problem, a plan and an outcome in, a `Comparison` out; no torch."""

from __future__ import annotations

from explorer.measured.comparing import compare_run
from explorer.measured.comparison import Comparison
from explorer.measured.notes import other_hardware
from explorer.measured.ranking import rank_agreement
from explorer.measured.reporting import comparison_object, rows

__all__ = ["Comparison", "compare_run", "comparison_object", "other_hardware", "rank_agreement", "rows"]
