"""A library from a profile: the operators of one model, by what they do."""

from __future__ import annotations

from explorer.costs.profile import Profile
from explorer.costs.times.calls import Call, classes, sizes
from explorer.costs.times.library import CallTime, Library, Source, typical
from solvers.errors import InvalidProblem
from solvers.problem.graph import OpGraph, Phase


def library_of(graph: OpGraph, profile: Profile) -> Library:
    """What the profile of ``graph`` says of calls. Raises InvalidProblem where ranks ran on different hardware, whose
    mean is the time of neither.

    A profile counts lower quartiles over repetitions; a library, medians, which add up to the median of the whole.
    """
    hardware = sorted(set(profile.hardware))
    if len(hardware) > 1:
        raise InvalidProblem(f"times were measured on {' and '.join(hardware)} together; measure on one at a time")
    by_call: dict[Call, tuple[list[float], list[float], int, tuple[int, ...]]] = {}

    def add(call: Call, seconds: float, spread: float, samples: int, shape: tuple[int, ...]) -> None:
        if seconds > 0:
            entry = by_call.setdefault(call, ([], [], samples, shape))
            entry[0].append(seconds)
            entry[1].append(spread)

    amounts = sizes(graph, profile.samples)
    measured = {times.name: times for times in profile.operators}
    for optimizer in (*profile.updates, None) if profile.updates else (None,):
        for position, of in enumerate(classes(graph, optimizer or "")):
            operator = graph.operators[position]
            if optimizer is not None:
                if operator.phase is Phase.UPDATE and operator.name in profile.updates[optimizer]:
                    add(Call(of, amounts[position][0]), profile.updates[optimizer][operator.name], 0.0, 1, ())
                continue
            times = measured.get(operator.name)
            if operator.phase is Phase.UPDATE or times is None:
                continue
            for at, samples in enumerate(profile.samples):
                seconds, spread = times.seconds[at], times.spread[at]
                size = amounts[position][at]
                shape = _shape(graph, position, samples)
                add(Call(of, size), seconds * (1.0 + spread), spread, samples, shape)
    times_of_calls = [
        CallTime(call, *typical(seconds, spreads), len(seconds), samples, shape)
        for call, (seconds, spreads, samples, shape) in by_call.items()
    ]
    source = Source(profile.reference, profile.date, profile.clock, profile.ranks, profile.noise)
    return Library(hardware[0], profile.threads, profile.torch, profile.python, (source,), tuple(times_of_calls))


def _shape(graph: OpGraph, position: int, samples: int) -> tuple[int, ...]:
    """Of what the forward gives, the samples put in where they are found: in the first dimension that holds them."""
    forward = graph.operators[position].forward_of
    made = graph.outputs[position if forward is None else forward]
    if not made:
        return ()
    tensor = graph.tensors[made[0]]
    grows = tensor.nbytes.per_sample > 0
    at = next((d for d, size in enumerate(tensor.shape) if size and size % graph.samples == 0), None) if grows else None
    if at is None:
        return tensor.shape
    return (*tensor.shape[:at], tensor.shape[at] // graph.samples * samples, *tensor.shape[at + 1 :])
