"""A trace of torch.profiler: what `prof.export_chrome_trace` writes, as it is or compressed (.gz).

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
GZIP = b"\x1f\x8b"
ENGINE = "autograd::engine::evaluate_function: "
ACCUMULATE = "AccumulateGrad"
MICROSECOND = 1e-6
STEP, OPTIMIZER = "ProfilerStep#", "Optimizer.step#"
"""How the names of spans begin that the profiler, and every optimizer of torch, mark."""
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
MAX_RANK = 2**20


@dataclass(slots=True)
class Event:
    """A call. device_s: of the kernels that it started, 0 on a CPU; device_us: when the first of them began and the
    last ended, None where there are none. parts: the calls within it, all the way down."""

    name: str
    start_us: float
    seconds: float
    thread: object
    args: Mapping[str, object]
    parts: list[Event] = field(default_factory=list)
    device_s: float = 0.0
    device_us: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        clean_names(self, "name")

    @property
    def number(self) -> int | None:
        """Of autograd."""
        number = self.args.get("Sequence number")
        return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None

    @property
    def end_us(self) -> float:
        return self.start_us + self.seconds / MICROSECOND

    def take_kernel(self, start_us: float, end_us: float) -> None:
        """A kernel that this call started."""
        self.device_s += (end_us - start_us) * MICROSECOND
        first, last = self.device_us or (start_us, end_us)
        self.device_us = min(first, start_us), max(last, end_us)


@dataclass(frozen=True, slots=True)
class Mark:
    """A span with a name that somebody gave: a step of the profiler, or of an optimizer."""

    name: str
    start_us: float
    end_us: float


@dataclass(frozen=True, slots=True)
class Seen:
    """A forward call with the backward nodes that it made, in the order in which these ran."""

    forward: Event
    backward: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """What the profiler saw of one process.

    devices: names of GPUs. on_device: whether kernels ran on one, so that times are theirs. marks: steps of the
    profiler and of optimizers, in order, by the host's clock. host: its name. rank and backend: of torch.distributed,
    None and "" where it was not used. base_us: when the clock began by which all times are, since 1970, 0 where that is
    not stated. peak_bytes: the most that the GPU's allocator gave away, None where memory was not recorded
    (profile_memory=True).
    """

    calls: tuple[Seen, ...]
    devices: tuple[str, ...]
    on_device: bool
    marks: tuple[Mark, ...] = ()
    host: str = ""
    rank: int | None = None
    backend: str = ""
    base_us: float = 0.0
    peak_bytes: float | None = None


def load_trace(path: str) -> Trace:
    """The trace in a file. Raises InvalidProblem, in one line that names the file."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidProblem(f"{path}: {(error.strerror or str(error)).lower()}") from None
    return read_trace(unpacked(data, path), path)


def unpacked(data: bytes, where: str) -> bytes:
    """The text of a file that may be compressed. Raises InvalidProblem for what is no gzip, or too large."""
    if len(data) > MAX_BYTES:
        raise InvalidProblem(f"{where}: at most {MAX_BYTES:,} bytes are read; trace fewer iterations")
    if data[:2] != GZIP:
        return data
    unpacker = zlib.decompressobj(wbits=31)
    try:
        content = unpacker.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise InvalidProblem(f"{where}: is no gzip file: {error}") from None
    if unpacker.unconsumed_tail:
        raise InvalidProblem(f"{where}: holds more than {MAX_BYTES:,} bytes; trace fewer iterations")
    if not unpacker.eof:
        raise InvalidProblem(f"{where}: ends in the middle")
    return content


def read_trace(data: bytes | str, where: str = "trace.json") -> Trace:
    """The trace of a JSON text. Raises InvalidProblem."""
    return trace_of(parse_json(data, where), where)


def trace_of(value: object, where: str) -> Trace:
    """The trace of parsed JSON. Raises InvalidProblem."""
    parts = Field(value, f"{where}:").fields_among_others(("traceEvents",))
    calls: list[Event] = []
    kernels: list[tuple[object, float, float]] = []
    marks: list[Mark] = []
    peaks: list[float] = []
    for item in parts["traceEvents"].items(MAX_EVENTS):
        event = item.value
        if not isinstance(event, dict):
            continue
        category, phase = event.get("cat"), event.get("ph")
        if event.get("name") == "[memory]":
            peaks += _allocated(event)
        elif phase != "X":
            continue
        elif category == "cpu_op":
            calls.append(_event(item, event))
        elif category in ON_DEVICE:
            start, seconds, args = _times(item, event)
            kernels.append((args.get("External id"), start, start + seconds / MICROSECOND))
        elif category == "user_annotation":
            name = event.get("name")
            if isinstance(name, str) and name.startswith((STEP, OPTIMIZER)):
                start, seconds, _ = _times(item, event)
                marks.append(Mark(printable(name[:200]), start, start + seconds / MICROSECOND))
    _give_kernels(calls, kernels)
    return Trace(
        _seen(_nested(calls), where),
        _device_names(parts),
        bool(kernels),
        tuple(sorted(marks, key=lambda mark: (mark.start_us, mark.end_us))),
        _text(parts["host_name"].value if "host_name" in parts else ""),
        *_distributed(parts),
        _base_us(parts),
        max(peaks, default=None),
    )


def _give_kernels(calls: Sequence[Event], kernels: Sequence[tuple[object, float, float]]) -> None:
    """To the calls that started them, by the number that both bear."""
    owners = {owner: call for call in calls if isinstance(owner := call.args.get("External id"), int)}
    for owner, start_us, end_us in kernels:
        if isinstance(owner, int) and owner in owners:
            owners[owner].take_kernel(start_us, end_us)


def _allocated(event: Mapping[str, object]) -> list[float]:
    """What the allocator of a GPU had given away after this event; none for a CPU's, which begins to count with the
    trace."""
    args = event.get("args")
    if not isinstance(args, dict) or args.get("Device Type") in (0, None):
        return []
    total = args.get("Total Allocated")
    known = isinstance(total, int | float) and not isinstance(total, bool) and 0 <= total < math.inf
    return [float(total)] if known else []  # type: ignore[arg-type]  # it is a number, if it is known


def _device_names(parts: Mapping[str, Field]) -> tuple[str, ...]:
    devices = parts["deviceProperties"].value if "deviceProperties" in parts else []
    named = [d.get("name") for d in devices if isinstance(d, dict)] if isinstance(devices, list) else []
    return tuple(printable(name[:200]) for name in named if isinstance(name, str))


def _distributed(parts: Mapping[str, Field]) -> tuple[int | None, str]:
    """(rank, backend) of torch.distributed."""
    information = parts["distributedInfo"].value if "distributedInfo" in parts else None
    if not isinstance(information, dict):
        return None, ""
    rank, backend = information.get("rank"), information.get("backend")
    known = isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank <= MAX_RANK
    return rank if known else None, _text(backend)


def _text(value: object) -> str:
    return printable(value[:80]) if isinstance(value, str) else ""


def _base_us(parts: Mapping[str, Field]) -> float:
    value = parts["baseTimeNanoseconds"].value if "baseTimeNanoseconds" in parts else 0
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return value / 1000 if known else 0.0  # type: ignore[operator]  # it is a number, if it is known


def _times(item: Field, event: Mapping[str, object]) -> tuple[float, float, Mapping[str, object]]:
    """(start in microseconds, seconds, arguments)."""
    values = []
    for key in ("ts", "dur"):
        value = event.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise InvalidProblem(f"{item.where}.{key}: expected a finite number >= 0")
        values.append(float(value))
    args = event.get("args")
    return values[0], values[1] * MICROSECOND, args if isinstance(args, dict) else {}


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
        known = [part.device_us for part in (call, *call.parts) if part.device_us is not None]
        if known:
            call.device_us = min(start for start, _ in known), max(end for _, end in known)
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
            f"{where}: {len(threads)} threads ran the forward, and their backward cannot be separated; trace one"
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
