"""What is asked of a run: how many steps, with which optimizer, on what."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from explorer.runner.bundles.outcome import Way
from explorer.runner.scripts.executable import OPTIMIZERS
from solvers.errors import InvalidProblem

MAX_STEPS = 100_000
MAX_COUNTS = 32
"""Numbers of samples that a calibration measures at."""


class Backend(StrEnum):
    """What the ranks compute on. AUTO: a GPU for each rank where there are enough of them, else the CPU."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """How a plan is to be run.

    steps: measured iterations, after ``warmup`` unmeasured ones. optimizer: one of OPTIMIZERS (None: the
    plan's); learning_rate: its step size. seed: of parameters and samples. dtype: "float64" or "float32" to
    run in another floating dtype than the plan's (None: the plan's). threads: of each rank on a CPU; pin:
    whether each rank keeps to its own cores. verify: compare loss, gradients and parameters with the model in
    a plain loop; verify_by: in one piece or by stages (None: in one piece where rank 0 has room for it).
    allow_model: whether a reference "package.module:callable" may run.
    time_limit_s: the whole run is ended after it. operators: also measure operators one by one.
    dump: afterwards write gradients and parameters of one iteration, dropout off. samples, budget_s and
    blocks are for calibrations: at which numbers of samples operators are measured (none: powers of two), for about how
    many seconds, and in about how many blocks one after another (None: as memory allows).
    """

    steps: int = 5
    warmup: int = 2
    optimizer: str | None = None
    learning_rate: float = 1e-3
    seed: int = 0
    dtype: str | None = None
    backend: Backend = Backend.AUTO
    threads: int = 1
    pin: bool = True
    verify: bool = False
    allow_model: bool = False
    operators: bool = False
    time_limit_s: float = 600.0
    samples: tuple[int, ...] = ()
    budget_s: float = 15.0
    dump: bool = False
    verify_by: Way | None = None
    blocks: int | None = None

    def __post_init__(self) -> None:
        for what, low, high in (("steps", 1, MAX_STEPS), ("warmup", 0, MAX_STEPS), ("threads", 1, 4096)):
            value = getattr(self, what)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise InvalidProblem(f"{what}: expected a whole number from {low} to {high:,}, found {value!r}")
        if self.blocks is not None and (
            isinstance(self.blocks, bool) or not isinstance(self.blocks, int) or not 1 <= self.blocks <= MAX_STEPS
        ):
            raise InvalidProblem(f"blocks: expected a whole number from 1 to {MAX_STEPS:,}, found {self.blocks!r:.80}")
        for what in ("learning_rate", "time_limit_s", "budget_s"):
            value = getattr(self, what)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
                raise InvalidProblem(f"{what}: expected a number above 0, found {value!r}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**31:
            raise InvalidProblem(f"seed: expected a whole number from 0 to {2**31 - 1}, found {self.seed!r}")
        if self.optimizer is not None and self.optimizer not in OPTIMIZERS:
            raise InvalidProblem(f"optimizer: expected {', '.join(OPTIMIZERS)}, found {self.optimizer!r}")
        if self.dtype not in (None, "float64", "float32"):
            raise InvalidProblem(f"dtype: expected float64 or float32, found {self.dtype!r}")
        counts = list(self.samples)
        if len(counts) > MAX_COUNTS or any(isinstance(n, bool) or not isinstance(n, int) for n in counts):
            raise InvalidProblem(f"samples: expected at most {MAX_COUNTS} whole numbers, found {str(counts)[:80]}")
        if counts != sorted(set(counts)) or any(not 1 <= n <= MAX_STEPS for n in counts):
            raise InvalidProblem(f"samples: expected numbers that ascend from 1 to {MAX_STEPS:,}, found {counts}")
        if self.verify_by is not None and not isinstance(self.verify_by, Way):
            raise InvalidProblem(f"verify_by: expected whole or stages, found {self.verify_by!r:.80}")
        for what in ("pin", "verify", "allow_model", "operators", "dump"):
            if not isinstance(getattr(self, what), bool):
                raise InvalidProblem(f"{what}: expected true or false, found {getattr(self, what)!r}")


def request_json(request: RunRequest) -> dict[str, Any]:
    way = None if request.verify_by is None else request.verify_by.value
    return {**asdict(request), "backend": request.backend.value, "verify_by": way}


def read_request(value: object) -> RunRequest:
    """What `request_json` wrote. Raises InvalidProblem."""
    if not isinstance(value, dict):
        raise InvalidProblem(f"a run request must be an object, found {type(value).__name__}")
    known = {field.name for field in fields(RunRequest)}
    unknown = sorted(set(value) - known)
    if unknown:
        raise InvalidProblem(f"a run request has no field {unknown[0]!r}; there are: {', '.join(sorted(known))}")
    given = dict(value)
    if not isinstance(given.get("samples", []), list):
        raise InvalidProblem(f"samples: expected a list of whole numbers, found {given['samples']!r:.80}")
    given["samples"] = tuple(given.get("samples", []))
    try:
        given["backend"] = Backend(given.get("backend", "auto"))
    except ValueError:
        raise InvalidProblem(f"backend: expected auto, cpu or cuda, found {given['backend']!r}") from None
    try:
        given["verify_by"] = None if given.get("verify_by") is None else Way(given["verify_by"])
    except ValueError:
        raise InvalidProblem(f"verify_by: expected whole, stages or null, found {given['verify_by']!r:.80}") from None
    return RunRequest(**given)
