"""The engine: problems, planners, and what a plan costs."""

from pathlib import Path

from solvers.kernels.kernel_cache import settle

settle(Path(__file__).parent)
