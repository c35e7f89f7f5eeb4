"""The calls in a trace of torch.profiler: what `prof.export_chrome_trace` writes, as it is or compressed (.gz).

Calls lie within calls on their thread, as their times do. A forward call is one that no other encloses and that the
engine of autograd did not make; "aten::linear" is one, "aten::addmm" within it is part of it. A backward node is a call
of the engine, with the number that autograd gave it in the forward: the number of the call that made it, or of one
within that. Adding to the gradient of a parameter has no number, and comes right after the node that gave the gradient.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from solvers.errors import InvalidProblem, printable
from solvers.formats.json_fields import Field
from solvers.formats.json_text import MAX_BYTES, parse_json
from solvers.problem.names import clean_names

MAX_EVENTS = 5_000_000
ENGINE = "autograd::engine::evaluate_function: "
ACCUMULATE = "AccumulateGrad"
MICROSECOND = 1e-6


@dataclass(slots=True)
class Event:
    """A call. device_s: of the kernels that it started, 0 on a CPU. parts: the calls within it, all the way down."""

    name: str
    start_us: float
    seconds: float
    thread: object
    args: Mapping[str, object]
    parts: list[Event] = field(default_factory=list)
    device_s: float = 0.0

    def __post_init__(self) -> None:
        clean_names(self, "name")

    @property
    def number(self) -> int | None:
        """Of autograd."""
        found = self.args.get("Sequence number")
        return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


@dataclass(frozen=True, slots=True)
class Seen:
    """A forward call with the backward nodes that it made, in the order in which these ran."""

    forward: Event
    backward: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """devices: names of GPUs. on_device: whether kernels ran on one, so that times are theirs."""

    calls: tuple[Seen, ...]
    devices: tuple[str, ...]
    on_device: bool


def load_trace(path: str) -> Trace:
    """The trace in a file. Raises InvalidProblem, in one line that names the file."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidProblem(f"{path}: {(error.strerror or str(error)).lower()}") from None
    if len(data) > MAX_BYTES:
        raise InvalidProblem(f"{path}: at most {MAX_BYTES:,} bytes are read; trace fewer iterations")
    return read_trace(_unpacked(data, path) if data[:2] == b"\x1f\x8b" else data, path)


def _unpacked(data: bytes, where: str) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        found = unpacker.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise InvalidProblem(f"{where}: is no gzip file: {error}") from None
    if unpacker.unconsumed_tail:
        raise InvalidProblem(f"{where}: holds more than {MAX_BYTES:,} bytes; trace fewer iterations")
    if not unpacker.eof:
        raise InvalidProblem(f"{where}: ends in the middle")
    return found


def read_trace(data: bytes | str, where: str = "trace.json") -> Trace:
    """The trace of a JSON text. Raises InvalidProblem."""
    whole = Field(parse_json(data, where), f"{where}:")
    parts = whole.fields_among_others(("traceEvents",))
    calls: list[Event] = []
    kernels: dict[int, float] = {}
    for item in parts["traceEvents"].items(MAX_EVENTS):
        event = item.value
        if not isinstance(event, dict) or event.get("ph") != "X":
            continue
        category = event.get("cat")
        if category == "cpu_op":
            calls.append(_event(item, event))
        elif category in ("kernel", "gpu_memcpy", "gpu_memset"):
            _, seconds, args = _times(item, event)
            owner = args.get("External id")
            if isinstance(owner, int):
                kernels[owner] = kernels.get(owner, 0.0) + seconds
    for call in calls:
        owner = call.args.get("External id")
        if isinstance(owner, int):
            call.device_s = kernels.get(owner, 0.0)
    outermost = _nested(calls)
    devices = parts["deviceProperties"].value if "deviceProperties" in parts else []
    named = [d.get("name") for d in devices if isinstance(d, dict)] if isinstance(devices, list) else []
    return Trace(_seen(outermost, where), tuple(printable(n[:200]) for n in named if isinstance(n, str)), bool(kernels))


def _times(item: Field, event: Mapping[str, object]) -> tuple[float, float, Mapping[str, object]]:
    """(start in microseconds, seconds, arguments)."""
    found = []
    for key in ("ts", "dur"):
        value = event.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise InvalidProblem(f"{item.where}.{key}: expected a finite number >= 0")
        found.append(float(value))
    args = event.get("args")
    return found[0], found[1] * MICROSECOND, args if isinstance(args, dict) else {}


def _event(item: Field, event: Mapping[str, object]) -> Event:
    name = event.get("name")
    if not isinstance(name, str):
        raise InvalidProblem(f"{item.where}.name: expected a text")
    start, seconds, args = _times(item, event)
    thread = (str(event.get("pid")), str(event.get("tid")))
    return Event(name, start, seconds, thread, args)


def _nested(calls: list[Event]) -> list[Event]:
    """Those that no other encloses, in order of time; every call within one is among its parts."""
    calls.sort(key=lambda call: (call.start_us, -call.seconds))
    ends: dict[object, tuple[float, Event]] = {}
    outermost = []
    for call in calls:
        end_us, owner = ends.get(call.thread, (-math.inf, call))
        if call.start_us < end_us:
            owner.parts.append(call)
        else:
            ends[call.thread] = (call.start_us + call.seconds / MICROSECOND, call)
            outermost.append(call)
    for call in outermost:
        call.device_s += math.fsum(part.device_s for part in call.parts)
    return outermost


def _seen(outermost: Sequence[Event], where: str) -> tuple[Seen, ...]:
    forwards = [call for call in outermost if not call.name.startswith(ENGINE)]
    if not any("Input Dims" in call.args for call in forwards):
        raise InvalidProblem(
            f"{where}: holds no calls with their shapes; record with torch.profiler.profile(record_shapes=True) and"
            " write it with export_chrome_trace"
        )
    made_by: dict[int, int] = {}
    threads = set()
    for position, call in enumerate(forwards):
        for part in (call, *call.parts):
            if part.number is not None and not part.args.get("Fwd thread id"):
                # A call that makes no node bears the number of the next one that does, so the last one counts.
                made_by[part.number] = position
                threads.add(part.thread)
    backwards: list[list[Event]] = [[] for _ in forwards]
    before: dict[object, int] = {}
    engine = [call for call in outermost if call.name.startswith(ENGINE)]
    if engine and len(threads) > 1:
        raise InvalidProblem(
            f"{where}: {len(threads)} threads ran the forward, and their backward cannot be told apart; trace one"
            " process without threads of its own"
        )
    for node in engine:
        owner = made_by.get(node.number) if node.number is not None else None
        if node.name.endswith(ACCUMULATE):
            owner = before.get(node.thread)
        elif owner is not None:
            before[node.thread] = owner
        if owner is not None:
            backwards[owner].append(node)
    return tuple(Seen(call, tuple(nodes)) for call, nodes in zip(forwards, backwards, strict=True))
