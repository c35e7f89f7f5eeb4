"""Where a page fetches a file that was written for it."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.responses import PlainTextResponse, Response

from explorer.web.state.outlet import PATH, Outlet


def add_download_route(server: FastAPI, outlet: Outlet) -> None:
    """Serve what is in the outlet, always as a download: nothing of it is ever shown as a page of this server."""

    async def fetch(token: str) -> Response:
        taken = outlet.get(token)
        if taken is None:
            return PlainTextResponse("this file is no longer here; export it again", 404)
        headers = {"content-disposition": f'attachment; filename="{taken.name}"', "cache-control": "no-store"}
        return Response(taken.data, media_type=taken.media_type, headers=headers)

    server.add_api_route(PATH + "{token}", fetch, methods=["GET"], response_model=None)
