"""The page: a Dash app on FastAPI with a websocket of its own. Imports no torch.

Importing this package imports no Dash either: the command line names `serve` before it needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explorer.web.app import Config, create_app, serve

__all__ = ["Config", "create_app", "serve"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from explorer.web import app

        return getattr(app, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
