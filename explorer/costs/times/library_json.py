"""operator-times.json: a library, written and read back without loss."""

from __future__ import annotations

from explorer.costs.times.calls import Call, Class, Size
from explorer.costs.times.library import CallTime, Library, Source
from solvers.formats.graph_json import read_header
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json, file_bytes, parse_json
from solvers.problem.graph import Phase

FORMAT = "placement-explorer/operator-times"
VERSION = 1
MAX_TIMES = 1_000_000
MAX_SOURCES = 10_000
MAX_DIMENSIONS = 64
MAX_NAME = 200

_FIELDS = ("hardware", "threads", "torch", "python", "sources", "times")
_SIZE = ("flops", "moved_bytes")
_PRODUCT = ("count", "rows", "columns", "depth")


def write_library(library: Library) -> str:
    """The text of an operator-times.json. `read_library` of it gives the library back."""
    return dump_json(library_object(library))


def library_object(library: Library) -> dict[str, object]:
    """The same as a JSON value. Of what is no product, the sizes of one are left out."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "hardware": library.hardware,
        "threads": library.threads,
        "torch": library.torch,
        "python": library.python,
        "sources": [
            {
                "reference": source.reference,
                "date": source.date,
                "clock": source.clock,
                "processes": source.processes,
                "noise": source.noise,
            }
            for source in library.sources
        ],
        "times": [_time_object(time) for time in library.times],
    }


def _time_object(time: CallTime) -> dict[str, object]:
    of, size = time.call.of, time.call.size
    product = {name: getattr(size, name) for name in _PRODUCT}
    return {
        "op_type": of.op_type,
        "phase": of.phase.value,
        "dtype": of.dtype,
        "flops": size.flops,
        "moved_bytes": size.moved_bytes,
        **({"product": product} if set(product.values()) != {1} else {}),
        "samples": time.samples,
        "shape": list(time.shape),
        "seconds": time.seconds,
        "spread": time.spread,
        "count": time.count,
        "source": time.source,
    }


def load_library(path: str) -> Library:
    """The library in a file. Raises InvalidProblem, in one line that names the file."""
    return read_library(file_bytes(path), path)


def read_library(data: bytes | str | object, where: str = "operator-times.json") -> Library:
    """The library of a JSON text, or of its parsed value. Raises InvalidProblem."""
    value = parse_json(data, where) if isinstance(data, bytes | str) else data
    whole = Field(value, f"{where}:")
    parts = read_header(whole, FORMAT, VERSION, _FIELDS, ())
    sources = tuple(_source(item) for item in parts["sources"].items(MAX_SOURCES))
    times = tuple(_time(item) for item in parts["times"].items(MAX_TIMES))
    return whole.located(
        lambda: Library(
            parts["hardware"].text(MAX_NAME),
            parts["threads"].integer(1),
            parts["torch"].text(MAX_NAME),
            parts["python"].text(MAX_NAME),
            sources,
            times,
        )
    )


def _source(field: Field) -> Source:
    parts = field.fields(("reference", "date", "clock", "processes", "noise"))
    return Source(
        parts["reference"].text(MAX_NAME),
        parts["date"].text(MAX_NAME),
        parts["clock"].text(MAX_NAME),
        parts["processes"].integer(1),
        None if parts["noise"].is_null else parts["noise"].number(),
    )


def _time(field: Field) -> CallTime:
    parts = field.fields(
        ("op_type", "phase", "dtype", *_SIZE, "samples", "shape", "seconds", "spread", "count", "source"), ("product",)
    )
    product = parts["product"].fields(_PRODUCT) if "product" in parts else None
    ones = (1,) * len(_PRODUCT)
    return CallTime(
        Call(
            Class(parts["op_type"].text(MAX_NAME), parts["phase"].choice(Phase), parts["dtype"].text(MAX_NAME)),
            Size(
                *(parts[name].integer() for name in _SIZE),
                *(ones if product is None else (product[name].integer(1) for name in _PRODUCT)),
            ),
        ),
        parts["seconds"].number(),
        parts["spread"].number(),
        parts["count"].integer(1),
        parts["samples"].integer(1),
        tuple(item.integer() for item in parts["shape"].items(MAX_DIMENSIONS)),
        parts["source"].integer(),
    )
