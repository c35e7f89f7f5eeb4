"""What is not there is 404, where Dash would answer with its page or with a fault of its own."""

from __future__ import annotations

from dash.exceptions import DependencyException
from fastapi import FastAPI, Request
from starlette.responses import PlainTextResponse

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
