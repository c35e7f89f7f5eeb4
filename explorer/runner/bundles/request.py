"""What is asked of a run: how many steps, with which optimizer, on what."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from explorer.runner.bundles.outcome import Way
from explorer.runner.scripts.executable import OPTIMIZERS
from solvers.formats.json_fields import Field
from solvers.formats.records import Within, among, check_record, read_record, record_json

MAX_STEPS = 100_000
MAX_COUNTS = 32
"""Numbers of samples that a calibration measures at."""


def _positive(field: Field) -> float:
    number = field.value
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < 1e9:
        field.refuse("a number above 0")
    return number


def _ascending(field: Field) -> tuple[int, ...]:
    counts = tuple(item.integer(1, MAX_STEPS) for item in field.items(MAX_COUNTS))
    if list(counts) != sorted(set(counts)):
        field.refuse("numbers that ascend")
    return counts


Positive = Annotated[float, _positive]


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

    steps: Annotated[int, Within(1, MAX_STEPS)] = 5
    warmup: Annotated[int, Within(0, MAX_STEPS)] = 2
    optimizer: Annotated[str | None, among(None, *OPTIMIZERS)] = None
    learning_rate: Positive = 1e-3
    seed: Annotated[int, Within(0, 2**31 - 1)] = 0
    dtype: Annotated[str | None, among(None, "float64", "float32")] = None
    backend: Backend = Backend.AUTO
    threads: Annotated[int, Within(1, 4096)] = 1
    pin: bool = True
    verify: bool = False
    allow_model: bool = False
    operators: bool = False
    time_limit_s: Positive = 600.0
    samples: Annotated[tuple[int, ...], _ascending] = ()
    budget_s: Positive = 15.0
    dump: bool = False
    verify_by: Way | None = None
    blocks: Annotated[int | None, Within(1, MAX_STEPS)] = None

    def __post_init__(self) -> None:
        check_record(self)


def request_json(request: RunRequest) -> dict[str, object]:
    """What is written to request.json."""
    record: dict[str, object] = record_json(request)
    return record


def read_request(value: object) -> RunRequest:
    """What `request_json` wrote. Raises InvalidProblem."""
    return read_record(Field(value, "a run request:"), RunRequest)
