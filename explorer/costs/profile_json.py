"""profile.json: measured costs, written and read back without loss."""

from __future__ import annotations

from dataclasses import asdict

from explorer.costs.profile import EngineTimes, LinkTimes, OperatorTimes, Profile, WholeTimes
from solvers.formats.cluster_json import MAX_OPERATORS
from solvers.formats.graph_json import read_header
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json, file_bytes, parse_json
from solvers.formats.problem_json import read_engine

FORMAT = "placement-explorer/profile"
VERSION = 1
MAX_COUNTS = 64
"""Sample counts, and message sizes."""
MAX_RANKS = 1024
MAX_OPTIMIZERS = 8
MAX_NOTES = 1_000
MAX_LINKS = MAX_RANKS * MAX_RANKS

_FIELDS = (
    "reference", "graph_sha256", "training", "dtype", "hardware", "hosts", "backend", "torch", "python", "date",
    "threads", "pinned", "samples", "operators", "updates", "wholes", "links", "step_overhead_s", "noise",
    "memory_bytes",
)  # fmt: skip


def write_profile(profile: Profile) -> str:
    """The text of a profile.json. `read_profile` of it gives the profile back."""
    return dump_json(profile_object(profile))


def profile_object(profile: Profile) -> dict[str, object]:
    """The same as a JSON value."""
    told = asdict(profile)
    if profile.engine is None:  # as files were before there was one
        del told["engine"]
    return {"format": FORMAT, "version": VERSION, **told}


def load_profile(path: str) -> Profile:
    """The profile in a file. Raises InvalidProblem, in one line that names the file."""
    return read_profile(file_bytes(path), path)


def read_profile(data: bytes | str | object, where: str = "profile.json") -> Profile:
    """The profile of a JSON text, or of its parsed value. Raises InvalidProblem."""
    value = parse_json(data, where) if isinstance(data, bytes | str) else data
    whole = Field(value, f"{where}:")
    parts = read_header(whole, FORMAT, VERSION, _FIELDS, ("notes", "clock", "engine"))
    counts = _integers(parts["samples"])
    operators = tuple(_operator(item, len(counts)) for item in parts["operators"].items(MAX_OPERATORS))
    updates = {
        optimizer: {name: seconds.number() for name, seconds in item.mapping(MAX_OPERATORS).items()}
        for optimizer, item in parts["updates"].mapping(MAX_OPTIMIZERS).items()
    }
    wholes = tuple(_whole(item) for item in parts["wholes"].items(MAX_COUNTS))
    links = tuple(_link(item) for item in parts["links"].items(MAX_LINKS))
    notes = tuple(item.text() for item in parts["notes"].items(MAX_NOTES)) if "notes" in parts else ()
    engine = _engine(parts["engine"]) if "engine" in parts else None
    return whole.located(
        lambda: Profile(
            reference=parts["reference"].text(),
            graph_sha256=parts["graph_sha256"].text(64),
            training=parts["training"].flag(),
            dtype=parts["dtype"].text(),
            hardware=_texts(parts["hardware"]),
            hosts=_texts(parts["hosts"]),
            backend=parts["backend"].text(),
            torch=parts["torch"].text(),
            python=parts["python"].text(),
            date=parts["date"].text(),
            threads=parts["threads"].integer(1),
            pinned=parts["pinned"].flag(),
            samples=counts,
            operators=operators,
            updates=updates,
            wholes=wholes,
            links=links,
            step_overhead_s=parts["step_overhead_s"].number(),
            noise=parts["noise"].number(),
            memory_bytes=tuple(item.number() for item in parts["memory_bytes"].items(MAX_RANKS)),
            notes=notes,
            clock=parts["clock"].text() if "clock" in parts else "wall clock",
            engine=engine,
        )
    )


def _operator(field: Field, counts: int) -> OperatorTimes:
    parts = field.fields(("name", "seconds", "spread"))
    return OperatorTimes(
        parts["name"].text(),
        tuple(item.number() for item in parts["seconds"].items(counts, exactly=counts)),
        tuple(item.number() for item in parts["spread"].items(counts, exactly=counts)),
    )


def _whole(field: Field) -> WholeTimes:
    parts = field.fields(
        ("samples", "forward_s", "backward_s", "operators_forward_s", "operators_backward_s"), ("alone_s",)
    )
    alone = parts.get("alone_s")
    return WholeTimes(
        parts["samples"].integer(1),
        parts["forward_s"].number(),
        parts["backward_s"].number(),
        parts["operators_forward_s"].number(),
        parts["operators_backward_s"].number(),
        None if alone is None or alone.is_null else alone.number(),
    )


def _link(field: Field) -> LinkTimes:
    parts = field.fields(("src", "dst", "nbytes", "seconds", "latency_s", "bandwidth_bytes_per_s"))
    nbytes = _integers(parts["nbytes"])
    return LinkTimes(
        parts["src"].integer(0, MAX_RANKS),
        parts["dst"].integer(0, MAX_RANKS),
        nbytes,
        tuple(item.number() for item in parts["seconds"].items(MAX_COUNTS, exactly=len(nbytes))),
        parts["latency_s"].number(),
        parts["bandwidth_bytes_per_s"].number(),
    )


def _engine(field: Field) -> EngineTimes:
    parts = field.fields(("costs", "residual", "measurements", "clock"))
    return EngineTimes(
        read_engine(parts["costs"]),
        parts["residual"].number(),
        parts["measurements"].integer(0),
        parts["clock"].text(),
    )


def _integers(field: Field) -> tuple[int, ...]:
    return tuple(item.integer(1) for item in field.items(MAX_COUNTS))


def _texts(field: Field) -> tuple[str, ...]:
    return tuple(item.text() for item in field.items(MAX_RANKS))
