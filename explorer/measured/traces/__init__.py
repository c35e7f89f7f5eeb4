"""A run elsewhere, traced by torch.profiler on every rank, as an outcome that is laid over its plan."""

from __future__ import annotations

from explorer.measured.traces.outcome import traced_outcome

__all__ = ["traced_outcome"]
