"""What each planner is for: the groups in which people choose among them."""

from __future__ import annotations

PURPOSES: dict[str, tuple[str, ...]] = {
    "For any question": ("auto",),
    "Pipelines: time of an iteration": (
        "graph-pipeline", "repeated-blocks", "selective-recompute", "tied-ends", "interleaved", "pipedream-iter",
        "piper", "pipedream", "pipedream-optimizer", "gpipe",
    ),
    "Steady state: the busiest device": (
        "downset-dp", "linear-dp", "max-load-ip", "max-load-cp", "non-contiguous", "local-search", "annealing",
        "partitioner",
    ),
    "One pass, operator by operator": ("joint", "joint-cp", "pesto", "m-topo", "m-etf", "m-sct", "heft"),
    "Latency of one sample": (
        "latency", "latency-dp", "latency-search", "latency-cp", "latency-ip", "greedy-latency",
    ),
    "By hand, and to compare with": (
        "layer-split", "equal", "data-parallel", "single", "expert", "brute-force",
    ),
}  # fmt: skip
"""Purpose -> names of planners, the first to try first."""


def purpose_of(planner: str) -> str:
    """The group of a planner; "" for one of a person's own."""
    return next((purpose for purpose, names in PURPOSES.items() if planner in names), "")
