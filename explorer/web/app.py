"""The Dash app on FastAPI, and serving it."""

from __future__ import annotations

import importlib.util
import logging
import re
import socket
import threading
import webbrowser
from dataclasses import dataclass
from pathlib import Path

import dash
import uvicorn
from dash.exceptions import DependencyException
from fastapi import FastAPI, Request
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.protocols.websockets.auto import AutoWebSocketsProtocol

from explorer.view.lessons.reading import all_lessons
from explorer.view.session import Choices, Session, parse_query, with_first_question
from explorer.web.contract.backend import Backend
from explorer.web.layout import page
from explorer.web.layout.plain import called_back, with_plain
from explorer.web.serving.callbacks import register
from explorer.web.serving.gate import Gate
from explorer.web.serving.live import PATH, add_live_route
from explorer.web.serving.public import LOOPBACK, names_of
from explorer.web.serving.queues import SLOW_S, patient
from explorer.web.serving.quotas import SHARED, UNLIMITED, Quotas
from explorer.web.serving.secret import Secret
from explorer.web.serving.security import LOCAL_HOSTS, Guard, Names, content_security_policy, hostname
from solvers.errors import InvalidProblem

LOCALHOST = "127.0.0.1"
_UNUSED = re.compile(r'<script src="[^"]*/(?:polyfill@|dash_table/|dash/dcc/)[^"]*"></script>')
INDEX = """<!DOCTYPE html>
<html lang="en">
<head>
{%metas%}
<title>{%title%}</title>
<link rel="icon" type="image/svg+xml" href="/assets/mark.svg">
{%css%}
</head>
<body>
{%app_entry%}
<footer>{%config%}{%scripts%}{%renderer%}</footer>
</body>
</html>"""
UNUSED = "/_dash-update-component"
"""All callbacks of the page run in the browser."""


def refuse_unknown(server: FastAPI) -> None:
    """For a server that has all its routes."""

    def nothing(_: Request, __: Exception | None = None) -> PlainTextResponse:
        return PlainTextResponse("there is nothing at this address", 404)

    async def anywhere(request: Request) -> PlainTextResponse:
        return nothing(request)

    server.router.routes[:] = [route for route in server.router.routes if getattr(route, "path", "") != UNUSED]
    server.add_exception_handler(DependencyException, nothing)
    server.add_api_route("/{path:path}", anywhere, methods=["GET", "HEAD"], response_model=None)


@dataclass(frozen=True)
class Config:
    """A server of the page.

    backend: who traces and solves; it is closed with the server.
    query: the page's state when its address has none.
    host: the address it listens on; hosts: more names that it answers for, besides the loopback's.
    lessons: a folder of the owner's lessons beside those that are shipped.
    secret: of a token that everybody must show; without one, ``host`` must be this machine's own.
    origins: where others reach the server, see `Names`.
    quotas: of each visitor, by default `quotas.SHARED` with a secret and none without.
    slow_s: how long a file that is handed in may stand still, and a connection with something to take; see
    `queues.patient`.
    """

    backend: Backend
    query: str = ""
    host: str = LOCALHOST
    hosts: tuple[str, ...] = ()
    lessons: str = ""
    secret: Secret | None = None
    origins: tuple[str, ...] = ()
    quotas: Quotas | None = None
    slow_s: float = SLOW_S

    def check(self) -> None:
        """Raises InvalidProblem for an address that others reach without a secret."""
        if self.secret is None and (self.host not in LOOPBACK or self.origins):
            raise InvalidProblem(f"host {self.host}: others would reach this page without a token; use {LOCALHOST}")

    def quotas_of_visitor(self) -> Quotas:
        return self.quotas or (UNLIMITED if self.secret is None else SHARED)


def create_app(config: Config) -> dash.Dash:
    """The app; its ASGI application, guard included, is ``app.server``. Callbacks belong to it alone.

    Raises InvalidProblem for a lesson of the owner's that cannot be read.
    """
    catalogue, quotas = config.backend.catalogue(), config.quotas_of_visitor()
    choices = Choices(
        tuple(m.name for m in catalogue.models),
        tuple(p.name for p in catalogue.planners),
        tuple(k.name for k in catalogue.kinds),
        tuple(t.name for t in catalogue.targets),
        clusters=tuple(c.name for c in catalogue.clusters),
        most_time_limit_s=quotas.search_s,
        profiles=catalogue.profiles,
        times=catalogue.times,
    )
    server = FastAPI(title="Placement Explorer", docs_url=None, redoc_url=None, openapi_url=None)
    lessons = all_lessons(choices, config.lessons)
    named = {name for name in map(hostname, (config.host, *config.hosts)) if name}
    names = Names(LOCAL_HOSTS | named, frozenset(config.origins))
    add_live_route(server, config.backend, choices, lessons, names, quotas, config.slow_s)
    app = _Page(
        "placement_explorer",
        server=server,
        assets_folder=str(assets_folder()),
        assets_path_ignore=["^widget$"],  # modules of the notebook widget, which is built from them
        title="Placement Explorer",
        update_title=None,
        serve_locally=True,
        compress=False,
        index_string=INDEX,
        enable_mcp=False,
    )
    app.backend.websocket_capability = False  # its callbacks' socket is not used: see live.py
    register(app)
    app.layout = with_plain(page(catalogue, _first(config.query, choices), lessons), called_back(app))
    app.enable_dev_tools(
        debug=False,
        dev_tools_ui=False,
        dev_tools_hot_reload=False,
        dev_tools_props_check=False,
        dev_tools_disable_version_check=True,
    )
    refuse_unknown(server)
    if config.secret is not None:
        https = names_of(origin for origin in config.origins if origin.startswith("https:"))
        server.add_middleware(Gate, secret=config.secret, https_hosts=https)
    server.add_middleware(Guard, names=names, policy=content_security_policy(app.csp_hashes()), socket_path=PATH)
    return app


def serve(config: Config, port: int = 8050, open_browser: bool = True, log_level: str = "warning") -> None:
    """Serve until interrupted; prints the address once it answers.

    Raises InvalidProblem for a lesson that cannot be read, and for an address that others reach without a secret.
    """
    try:
        config.check()
        app = create_app(config)
    except InvalidProblem:
        config.backend.close()
        raise
    host = config.host
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    shown = f"[{here}]" if ":" in here else here
    assert isinstance(AutoWebSocketsProtocol, type)  # websockets is required
    settings = uvicorn.Config(
        app.server,
        host=host,
        port=port,
        log_level=log_level,
        access_log=config.secret is None,  # an address may bring the token
        http=patient(AutoHTTPProtocol, config.slow_s),
        ws=patient(AutoWebSocketsProtocol, config.slow_s),
        ws_max_size=65_536,
        ws_per_message_deflate=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    logging.getLogger("uvicorn.error").addFilter(StrangersWords())
    server = _Announcing(settings, f"http://{shown}:{port}/", open_browser, config.origins)
    try:
        server.run()
    finally:
        config.backend.close()


class _Page(dash.Dash):
    """Without what Dash adds to every page and this one does not use: polyfills, its core components and tables."""

    def interpolate_index(self, **parts: str) -> str:
        index: str = super().interpolate_index(**{**parts, "scripts": _UNUSED.sub("", parts["scripts"])})
        return index


class _Announcing(uvicorn.Server):
    """Says where it listens once it does, and opens a browser there if asked to."""

    def __init__(self, config: uvicorn.Config, address: str, open_browser: bool, origins: tuple[str, ...]) -> None:
        super().__init__(config)
        self.address, self.open_browser, self.origins = address, open_browser, origins

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            others = f"; for others {', '.join(self.origins)}" if self.origins else ""
            print(f"Placement Explorer: {self.address}{others}  (Ctrl-C stops it)", flush=True)
            if self.open_browser:
                threading.Thread(target=webbrowser.open, args=(self.address,), daemon=True).start()


class StrangersWords(logging.Filter):
    """For the log of uvicorn, which reports a message that is no UTF-8 as an error of its own."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], UnicodeError):
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


def assets_folder() -> Path:
    """The css and scripts: beside the packages in a checkout, a package of its own when installed."""
    checkout = Path(__file__).parents[2] / "assets"
    if (checkout / "page.css").exists():
        return checkout
    spec = importlib.util.find_spec("placement_explorer_assets")
    for place in (spec.submodule_search_locations or []) if spec else []:
        return Path(place)
    raise FileNotFoundError("the page's assets are not installed; reinstall placement-explorer[app]")


def _first(query: str, choices: Choices) -> Session:
    session = _session(query, choices)
    return session if query else with_first_question(session)


def _session(query: str, choices: Choices) -> Session:
    try:
        return parse_query(query, choices)
    except InvalidProblem as error:
        logging.getLogger(__name__).warning("%s", error)
        return parse_query("", choices)
