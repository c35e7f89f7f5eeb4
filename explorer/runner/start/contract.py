"""Whether the torch that is here has what the engine takes from its pipelining runtime, which is private to torch.

Asked before anything else of a run: of a version that the tests did not run with, by what is there. No other part of
the engine is imported here, since importing those fails where something is missing.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any

RAN = ("2.13.0",)
"""Versions of torch that the tests of runs passed with."""
NAMES: Mapping[str, Sequence[str]] = {
    "torch.distributed.pipelining.schedules": (
        "_Action", "_ComputationType", "_PipelineScheduleRuntime", "_wait_batch_p2p", "record_function",
    ),
    "torch.distributed.pipelining.stage": ("_PipelineStageBase",),
    "torch.distributed.pipelining._backward": ("stage_backward",),
    "torch.utils._python_dispatch": ("TorchDispatchMode", "_disable_current_modes"),
    "torch._subclasses": ("FakeTensorMode",),
    "torch.export": ("export",),
}  # fmt: skip
COMPUTATIONS = (
    "FORWARD", "FULL_BACKWARD", "BACKWARD_INPUT", "BACKWARD_WEIGHT", "REDUCE_GRAD", "RESHARD", "SEND_F", "RECV_F",
    "SEND_B", "RECV_B",
)  # fmt: skip
METHODS: Mapping[str, Sequence[str]] = {
    "_PipelineScheduleRuntime": (
        "register_custom_function", "_step_microbatches", "_initialize_stages", "_check_inputs", "_update_losses",
    ),
    "_PipelineStageBase": (
        "get_fwd_recv_ops", "get_fwd_send_ops", "get_bwd_recv_ops", "get_bwd_send_ops", "_prepare_forward_infra",
        "_prepare_backward_infra", "_get_init_p2p_neighbors_ops",
    ),
}  # fmt: skip
"""What the engine calls, or has in place of torch's own."""


def missing() -> list[str]:
    """What is not there, by its dotted name; empty where runs are possible."""
    there: dict[str, Any] = {}
    gone = []
    for module, names in NAMES.items():
        try:
            place: Any = importlib.import_module(module)
        except ImportError:
            gone.append(module)
            continue
        gone += [f"{module}.{name}" for name in names if not hasattr(place, name)]
        there |= {name: getattr(place, name) for name in names if hasattr(place, name)}
    kinds = there.get("_ComputationType")
    if kinds is not None:
        gone += [f"_ComputationType.{name}" for name in COMPUTATIONS if not hasattr(kinds, name)]
    for owner, names in METHODS.items():
        if owner in there:
            gone += [f"{owner}.{name}" for name in names if not hasattr(there[owner], name)]
    runtime = there.get("_PipelineScheduleRuntime")
    register = getattr(runtime, "register_custom_function", None)
    if register is not None and len(inspect.signature(register).parameters) != 3:
        gone.append("_PipelineScheduleRuntime.register_custom_function(computation_type, function)")
    return gone


def broken() -> str:
    """Why nothing can run with this torch, in a line; "" if it can."""
    version = _version()
    gone = [] if version in RAN else missing()
    if not gone:
        return ""
    more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
    return f"torch {version} lacks what runs are made of ({gone[0]}{more}); versions that ran: {', '.join(RAN)}"


def note() -> str:
    """What to know of a run with this torch, in a line; "" with a version that ran before."""
    version = _version()
    if version in RAN:
        return ""
    return (
        f"torch {version} has not run before here; it has what the engine needs (versions that ran: {', '.join(RAN)})"
    )


def _version() -> str:
    """Without what a build adds ("+cpu"); "unknown" where there is no torch."""
    try:
        return importlib.metadata.version("torch").partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


if __name__ == "__main__":
    if refusal := broken():
        print(refusal, file=sys.stderr)
    sys.exit(2 if refusal else 0)
