"""Files: a page hands one in by a POST with its token, written to disk as it comes, as far as allowed; and fetches one
that was written for it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from explorer.jobs.requests import UPLOAD_BYTES
from explorer.web.serving.gate import VISITOR
from explorer.web.serving.queues import SLOW_S
from explorer.web.serving.quotas import Visitor
from explorer.web.serving.security import Names
from explorer.web.state.outlet import PATH as TAKE
from explorer.web.state.outlet import Outlet
from explorer.web.state.shelf import Shelf, StoredFile

PATH = "/open"
TOKEN = "x-page-token"
NAME = "x-file-name"


@dataclass
class Door:
    """Of one open page. take: called, on the loop's thread, with a file that arrived; visitor: whose page it is; busy:
    while one arrives."""

    take: Callable[[StoredFile], None]
    visitor: Visitor
    busy: bool = False


def add_upload_route(
    server: FastAPI, doors: dict[str, Door], shelf: Shelf, names: Names, pause_s: float = SLOW_S
) -> None:
    """Serve PATH. doors: of the pages that are open, by the token that each was given over its own connection. A file
    of which nothing comes for ``pause_s`` is given up."""

    async def receive(request: Request) -> JSONResponse:
        headers = request.headers
        door = doors.get(headers.get(TOKEN, ""))
        own = names.own(headers.get("origin"), headers.get("host"))
        if door is None or not own or request.scope.get(VISITOR, "") != door.visitor.name:
            return _answer(403, "files are taken from this server's own pages only")
        if door.busy:
            return _answer(409, "another file is still on its way")
        stated = headers.get("content-length", "")
        if not re.fullmatch("[0-9]{1,15}", stated) or int(stated) > UPLOAD_BYTES:
            return _answer(413, TOO_LARGE)
        if why := door.visitor.hand_in(int(stated)):
            return _answer(429, why)
        door.busy = True
        part = shelf.part()
        try:
            size = 0
            with part.open("wb") as file:
                pieces = request.stream()
                while True:
                    async with asyncio.timeout(pause_s):
                        chunk = await anext(pieces, None)
                    if chunk is None:
                        break
                    size += len(chunk)
                    if size > int(stated):
                        return _answer(413, TOO_LARGE)
                    file.write(chunk)
            name = unquote(headers.get(NAME, ""), errors="replace")[:1000]
            stored = shelf.store(part, name, door.visitor.name, door.visitor.quotas.held_bytes)
        except ClientDisconnect:
            return _answer(400, "the file did not arrive whole")
        except TimeoutError:  # before OSError, of which it is one
            return _answer(408, "the file did not arrive whole: nothing of it came for too long")
        except OSError as error:
            return _answer(507, f"the file cannot be kept: {(error.strerror or str(error)).lower()}")
        finally:
            door.busy = False
            part.unlink(missing_ok=True)
        door.take(stored)
        return JSONResponse({"file": stored.identifier})

    server.add_api_route(PATH, receive, methods=["POST"], response_model=None)


TOO_LARGE = (
    f"a file may have at most {UPLOAD_BYTES // 2**20} MiB; export a model on the meta device, without its weights"
)


def _answer(status: int, words: str) -> JSONResponse:
    return JSONResponse({"refused": words}, status)


def add_download_route(server: FastAPI, outlet: Outlet) -> None:
    """Serve what is in the outlet, always as a download: nothing of it is ever shown as a page of this server."""

    async def fetch(token: str) -> Response:
        taken = outlet.get(token)
        if taken is None:
            return PlainTextResponse("this file is no longer here; export it again", 404)
        headers = {"content-disposition": f'attachment; filename="{taken.name}"', "cache-control": "no-store"}
        return Response(taken.data, media_type=taken.media_type, headers=headers)

    server.add_api_route(TAKE + "{token}", fetch, methods=["GET"], response_model=None)
