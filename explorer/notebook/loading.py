"""The widget's class, which needs packages that the base installation does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explorer.notebook.widget import PlacementWidget


def widget_class() -> type[PlacementWidget]:
    """Raises ImportError, in one line, without the extra [widget]."""
    try:
        from explorer.notebook.widget import PlacementWidget
    except ModuleNotFoundError as error:
        raise ImportError(
            f"the notebook widget needs {error.name}: pip install 'placement-explorer[widget]'", name=error.name
        ) from error
    return PlacementWidget
