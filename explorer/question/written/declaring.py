"""How a setting is declared: one field of a frozen group, with all that is made from it.

A group is a plain dataclass whose fields carry a `Setting` as metadata. Of the libraries for this, attrs is another
dependency for its converters alone, msgspec does not keep what a flag or a control needs, and pydantic is slow to
import; here the reading is `Kind`s of one file, which links, flags and Python share.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from typing import Any, ClassVar, TypeVar

from explorer.question.written.closest import closest
from explorer.question.written.kinds import Kind
from solvers.errors import InvalidProblem

AUTO = "auto"
"""Of a choice on the page: nothing is set."""
CHOICE, SEGMENTS, NUMBER, SWITCH, OWN = "choice", "segments", "number", "switch", "own"
"""Shapes of a control. OWN: what the page's scripts make of several."""
RARE, PIPELINES, ONE_PASS = "rare", "pipelines", "one-pass"
"""Places of a control: under "Links, CPUs, memory"; what means nothing in one unsplit pass; what does only there."""
FIRST_ROW, MORE = "first-row", "more"
"""Places of a control in the notebook's widget."""


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Control:
    """How the page shows a setting."""

    id: str
    label: str
    """Beside the control; "" for none."""
    meaning: str
    """What `?` says of it, in a sentence or two."""
    shape: str = CHOICE
    place: str = ""
    """Of RARE, PIPELINES and ONE_PASS: drawn there in the order of declaration; "" where the layout names it."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What its choices are called."""
    what: str = ""
    """Its name for those who do not see what is around it; the label if "" is given."""
    width: int | None = 118
    """Pixels; None: what there is."""
    unit: float = 1.0
    """Of what the control shows, in that of the setting: a GiB, for one in bytes."""
    least: float = 1.0
    most: float | None = None
    whole: bool = False
    suffix: str = ""
    """Behind a number."""
    empty: str = AUTO
    """What a number's field says while nothing is set."""
    default: bool | float | str | None = None
    """What the page begins with where that is not what Python begins with."""
    term: str = ""
    """The key of its meaning, its id if ""; and `word`, what people look up, its label if ""."""
    word: str = ""
    in_widget: str = ""
    """Of FIRST_ROW and MORE: where the notebook's widget has it, too, in the order of declaration; "" where not."""

    @property
    def key(self) -> str:
        return self.term or self.id

    @property
    def heading(self) -> str:
        return self.word or self.label


@dataclass(frozen=True, kw_only=True)
class Setting:
    """All that is known of a setting. field: the attribute that holds it, with its unit; name: what Python, traits and
    flags call it; link: its key in a query string, "" where pages and links have none; help: of the flag, "" for what
    another setting sets."""

    kind: Kind
    help: str
    name: str
    flag: str
    metavar: str | None
    link: str
    control: Control | None
    field: str = ""
    default: object = None

    def shown(self, value: object) -> bool | float | str:
        """A value of the setting as its control has it."""
        control = self.control
        assert control is not None
        linked = self.kind.to_link(value)
        if control.shape == SWITCH:
            return bool(linked)
        if control.shape == NUMBER:
            if not isinstance(value, int | float) or (value == self.default and control.default is None):
                return ""
            return value if control.unit == 1.0 else value / control.unit
        if linked is None:
            return AUTO if control.default is None else str(control.default)
        return str(linked).lower() if isinstance(linked, bool) else str(linked)

    @property
    def usual(self) -> bool | float | str:
        """What its control has where nothing is set."""
        assert self.control is not None
        return self.shown(self.default) if self.control.default is None else self.control.default


def setting(
    default: T,
    kind: Kind,
    help: str,
    *,
    name: str = "",
    flag: str = "",
    metavar: str | None = None,
    link: str = "",
    control: Control | None = None,
) -> T:
    """A field of a group. name: the field's by default; flag: the name's; link: the name, if there is a control."""
    made = Setting(kind=kind, help=help, name=name, flag=flag, metavar=metavar, link=link, control=control)
    if isinstance(default, dict):
        return field(default_factory=lambda: default.copy(), metadata={"setting": made})  # type: ignore[return-value]
    return field(default=default, metadata={"setting": made})


@dataclass(frozen=True, init=False)
class Group:
    """Settings that belong together. Each is given by its name, as a number in SI units or as text ("16GiB"), or by its
    field; what is not given has its default. Raises InvalidProblem."""

    _declared: ClassVar[tuple[Setting, ...]]

    def __init__(self, **given: object) -> None:
        declared = settings_of(type(self))
        by_name = {one.name: one for one in declared} | {one.field: one for one in declared}
        values: dict[str, object] = {}
        for name, value in given.items():
            if name not in by_name:
                raise InvalidProblem(unknown(name, [one.name for one in declared if one.help]))
            one = by_name[name]
            if one.field in values:
                raise InvalidProblem(f"{name} is given twice; keep one")
            values[one.field] = one.kind.read(one.name, value)
        for one in declared:
            default = dict(one.default) if isinstance(one.default, dict) else one.default
            object.__setattr__(self, one.field, values.get(one.field, default))


def unknown(name: str, known: Sequence[str]) -> str:
    """A refusal that names the nearest setting."""
    return f"there is no setting {name!r}{closest(name, known)}; there are: {', '.join(known)}"


def settings_of(group: type[Group]) -> tuple[Setting, ...]:
    """What a group declares, in order, with what follows from the fields themselves."""
    if "_declared" not in vars(group):
        group._declared = tuple(_completed(each) for each in dataclasses.fields(group))
    return group._declared


def _completed(each: dataclasses.Field[Any]) -> Setting:
    made: Setting = each.metadata["setting"]
    name = made.name or each.name
    return dataclasses.replace(
        made,
        field=each.name,
        name=name,
        flag=made.flag or "--" + name.replace("_", "-"),
        link=made.link or ("" if made.control is None else name),
        default={} if each.default is MISSING else each.default,
    )
