"""A chat application for foreign front ends: npm ``ai``, AG-UI and plain server-sent events, of one set of tools.

    STATE=FOLDER UPSTREAM=http://127.0.0.1:8801 python tests/frontends/application.py 8800

``STATE`` is a folder, for what outlives the process; ``UPSTREAM`` is the model's server, on which the request header
``x-judge-wire`` names the wire. ``test_judges`` runs foreign clients against it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from streamkit.bridges.event_log import FramesGone, LiveRuns, UnknownRun
from streamkit.bridges.run_store import RunStore
from streamkit.errors import UsageError

if (tests := str(Path(__file__).resolve().parent.parent)) not in sys.path:
    sys.path.insert(0, tests)

from frontends import agui_routes, chat_routes, events_routes
from frontends.backend import Backend


async def get_effects(request: Request) -> JSONResponse:
    """Return the effects that tools had, in order."""
    return JSONResponse(request.app.state.backend.effects)


async def refuse(request: Request, error: Exception) -> JSONResponse:
    """Respond to a request that is wrong."""
    status = 404 if isinstance(error, UnknownRun) else 410 if isinstance(error, FramesGone) else 400
    return JSONResponse({"error": str(error)}, status)


def create_app(folder: Path, upstream: str) -> Starlette:
    """Return the application.

    Args:
        folder: where the entries of runs are stored.
        upstream: the base URL of the model's server.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None, None]:
        async with (
            httpx.AsyncClient(timeout=60) as http,
            RunStore(folder / "runs.sqlite") as store,
            LiveRuns() as runs,
        ):
            app.state.backend = Backend(http, upstream, store, runs)
            yield

    routes = [*events_routes.routes, *chat_routes.routes, *agui_routes.routes, Route("/api/effects", get_effects)]
    handlers = dict.fromkeys([FramesGone, UnknownRun, UsageError, ValueError], refuse)
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)


if __name__ == "__main__":
    app = create_app(Path(os.environ["STATE"]), os.environ["UPSTREAM"])
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
