"""The routes of the application for plain server-sent events."""

from __future__ import annotations

from frontends.models import SYSTEM, connect
from frontends.tools import TOOLS, Session
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from streamkit import Content, run_loop
from streamkit.bridges.event_log import EVENT_STREAM_HEADERS


class Message(BaseModel):
    """The body of a request of the page."""

    text: str


async def start(request: Request) -> Response:
    """Start a run, and show its events."""
    message = Message.model_validate_json(await request.body())
    backend = request.app.state.backend
    provider, ask = connect(backend, request.headers)
    history = [Content.system(SYSTEM), Content.human(message.text)]
    run = run_loop(ask, provider=provider, tools=TOOLS, history=history, deps=Session(backend.effects))
    log = await backend.runs.start(run)
    headers = EVENT_STREAM_HEADERS | {"x-run-id": run.run_key}
    return StreamingResponse(await log.server_sent_events(), headers=headers)


async def follow(request: Request) -> Response:
    """Show the events of a run after the one that the page has read last."""
    log = request.app.state.backend.runs.log(request.path_params["run"])
    reader = await log.server_sent_events(request.headers.get("last-event-id"))
    return Response(status_code=204) if reader.is_at_end else StreamingResponse(reader, headers=EVENT_STREAM_HEADERS)


async def send(request: Request) -> Response:
    """Send a message to a run that works."""
    message = Message.model_validate_json(await request.body())
    request.app.state.backend.runs.run(request.path_params["run"]).send(Content.human(message.text))
    return Response(status_code=202)


async def cancel(request: Request) -> Response:
    """End a run that works."""
    request.app.state.backend.runs.run(request.path_params["run"]).cancel()
    return Response(status_code=202)


routes = [
    Route("/events", start, methods=["POST"]),
    Route("/events/{run}", follow),
    Route("/events/{run}/messages", send, methods=["POST"]),
    Route("/events/{run}/cancel", cancel, methods=["POST"]),
]
