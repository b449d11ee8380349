"""The route of the application for AG-UI."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import Any

from frontends.models import KEY, SYSTEM, connect
from frontends.tools import TOOLS, Session
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from streamkit import Content, RunState, StreamInterrupted, run_loop
from streamkit.bridges.ag_ui import AgUiStream, parse_input

_log = logging.getLogger(__name__)
waiting: dict[str, str] = {}  # the states of runs that await answers, by thread: a database


async def run_agent(request: Request) -> StreamingResponse:
    """Run the agent on what a page has posted, or go on with the run that waits for the page's answers."""
    backend = request.app.state.backend
    chat = parse_input(await request.body(), key=KEY.encode())
    state = RunState.load(waiting[chat.posted.thread_id]) if chat.posted.thread_id in waiting else None
    answered = chat.answer(state)
    provider, ask = connect(backend, request.headers)
    start: dict[str, Any] = {"resume": answered}
    if answered is None:
        start = {"provider": provider, "history": [Content.system(SYSTEM), *chat.history]}
    shared = {} if chat.posted.state is None else chat.posted.state
    session = Session(backend.effects, shared if isinstance(shared, dict) else None)
    run = run_loop(ask, tools=[*TOOLS, *chat.tools_beside(TOOLS)], deps=session, **start)
    for content in chat.follow_up(state) if answered is not None else ():
        run.send(content)
    waiting.pop(chat.posted.thread_id, None)  # an answer counts once

    async def stream() -> AsyncGenerator[bytes, None]:
        frames = AgUiStream(chat)
        try:
            async with run:
                async for event in run:
                    if event.type == "run_ended" and run.state is not None:
                        waiting[chat.posted.thread_id] = run.state.dump()
                    yield frames.write(event)
        except StreamInterrupted:
            pass  # the page has it
        except Exception:
            _log.exception("a run has failed")
        yield frames.close()

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"cache-control": "no-cache"})


routes = [Route("/agui", run_agent, methods=["POST"])]
