"""The page: a Dash app on FastAPI with a websocket of its own. Imports no torch."""

from explorer.web.app import Config, create_app, serve

__all__ = ["Config", "create_app", "serve"]
