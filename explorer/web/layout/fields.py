"""Controls that callbacks hear of and set, drawn as HTML's own fields by `assets/fields/fields.js`.

Each is a component of the page's own, so no library of controls has to be read and mounted before the first picture.
Attributes that begin with ``aria-`` or ``data-`` go to the field itself.
"""

from __future__ import annotations

from typing import ClassVar

from explorer.web.layout.plain import Own


class _Field(Own):
    _valid_wildcard_attributes: ClassVar[list[str]] = ["data-", "aria-"]
    available_wildcard_properties: ClassVar[list[str]] = ["data-", "aria-"]


class Select(_Field):
    """One of a list, searched where it is long. data: [{value, label}] or [{group, items}], with a ``note`` of what is
    searched and shown besides; value: text; width: pixels."""

    properties = "id data value disabled width"


class NumberField(_Field):
    """A number, or "" where there is none. min, max: what it is brought between; whole: without a decimal point;
    unit: shown behind it; width: pixels; pause_ms: after what pause in writing it is sent."""

    properties = "id value min max whole unit placeholder width pause_ms"


class TextField(_Field):
    """Text. error: what is wrong with it, or ""; width: pixels; pause_ms: after what pause in writing it is sent."""

    properties = "id value error width pause_ms disabled"


class Checkbox(_Field):
    """A box to tick, with its label as children."""

    properties = "children id checked disabled"


class Switch(Checkbox):
    """The same, its label on the left."""


class Segments(_Field):
    """One of a few, side by side. data: [{value, label}]; value: text; most: the largest of other whole numbers that
    may be typed, if any."""

    properties = "id data value disabled most"


class Slider(_Field):
    """A number from min to max in steps from min on; max is a place too if no step meets it."""

    properties = "id value min max step disabled"


class Tabs(_Field):
    """Names of panels, which are the elements with ``data-panel``. data: [{value, label}]; value: which is shown."""

    properties = "id data value"
