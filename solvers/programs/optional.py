"""Libraries that only some planners need: the base installation goes without."""

from __future__ import annotations

from importlib.util import find_spec


def lacking(*modules: str) -> str | None:
    """What to install, as a sentence, if one of ``modules`` is not there; None if all are."""
    missing = [module for module in modules if find_spec(module) is None]
    if not missing:
        return None
    return f"it needs {' and '.join(missing)}; install them with: pip install 'placement-explorer[planners]'"
