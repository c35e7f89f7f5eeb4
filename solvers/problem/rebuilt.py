"""Values that are pickled and copied by what they were made of, without what was derived from that since."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any, ClassVar


class Rebuilt:
    """A dataclass whose copy is made, and checked, as it was."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), tuple(getattr(self, one.name) for one in fields(self) if one.init)
