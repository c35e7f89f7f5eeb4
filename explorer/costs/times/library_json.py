"""operator-times.json: a library, written and read back without loss."""

from __future__ import annotations

from explorer.costs.times.calls import Call, Class, Size
from explorer.costs.times.library import MAX_NAME, MAX_TIMES, CallTime, Library
from solvers.formats.graph_json import read_header
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json, file_bytes, parse_json
from solvers.formats.records import keys_of, readers_of, record_json, record_of
from solvers.problem.graph import Phase

FORMAT = "placement-explorer/operator-times"
VERSION = 1

_CLASS = ("op_type", "phase", "dtype")
_SIZE = ("flops", "moved_bytes")
_PRODUCT = ("count", "rows", "columns", "depth")


def write_library(library: Library) -> str:
    """The text of an operator-times.json. `read_library` of it gives the library back."""
    return dump_json(library_object(library))


def library_object(library: Library) -> dict[str, object]:
    """The same as a JSON value. Of what is no product, the sizes of one are left out."""
    whole = {name: record_json(getattr(library, name)) for name in readers_of(Library) if name != "times"}
    return {"format": FORMAT, "version": VERSION, **whole, "times": [_time_object(time) for time in library.times]}


def _time_object(time: CallTime) -> dict[str, object]:
    of, size, rest = time.call.of, time.call.size, record_json(time)
    del rest["call"]
    product = {name: getattr(size, name) for name in _PRODUCT}
    fields = {"op_type": of.op_type, "phase": of.phase.value, "dtype": of.dtype}
    fields |= {name: getattr(size, name) for name in _SIZE}
    return {**fields, **({"product": product} if set(product.values()) != {1} else {}), **rest}


def load_library(path: str) -> Library:
    """The library in a file. Raises InvalidProblem, in one line that names the file."""
    return read_library(file_bytes(path), path)


def read_library(data: bytes | str | object, where: str = "operator-times.json") -> Library:
    """The library of a JSON text, or of its parsed value. Raises InvalidProblem."""
    value = parse_json(data, where) if isinstance(data, bytes | str) else data
    whole = Field(value, f"{where}:")
    parts = read_header(whole, FORMAT, VERSION, *keys_of(Library))
    times = tuple(_time(item) for item in parts["times"].items(MAX_TIMES))
    return whole.located(lambda: record_of(Library, parts, times=times))


def _time(field: Field) -> CallTime:
    rest = [name for name in readers_of(CallTime) if name != "call"]
    parts = field.fields((*_CLASS, *_SIZE, *rest), ("product",))
    op_type, dtype = (parts[name].text(MAX_NAME) for name in ("op_type", "dtype"))
    of = Class(op_type, parts["phase"].choice(Phase), dtype)
    size = Size(*(parts[name].integer() for name in _SIZE))
    if "product" in parts:
        product = parts["product"].fields(_PRODUCT)
        size = size._replace(**{name: product[name].integer(1) for name in _PRODUCT})
    return record_of(CallTime, parts, call=Call(of, size))
