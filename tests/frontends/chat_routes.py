"""The routes of the application for npm ``ai``: a chat, the stream of its running response, and a stop button."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from frontends.backend import Backend
from frontends.models import MODEL, SYSTEM, connect
from frontends.tools import TOOLS, Session
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from streamkit import Content, Run, RunState, StreamInterrupted, run_loop
from streamkit.bridges.vercel_ui import HEADERS, Chat, UiMessageStream, parse_chat
from streamkit.events import RunEnded
from streamkit.execution.durable.state import AnsweredState

running: dict[str, str] = {}  # by the id of a chat the key of the run that responds in it


async def post_chat(request: Request) -> Response:
    """Respond to a message, or go on with the run whose questions the page has answered."""
    backend: Backend = request.app.state.backend
    chat = parse_chat(await request.body())
    provider, create_new_stream = connect(backend, request.headers)
    message_id = chat.continues or f"msg-{uuid4().hex}"
    stream = UiMessageStream(message_id, int(request.headers.get("x-judge-sdk", 7)), metadata=describe_end)
    options: dict[str, Any] = {"tools": TOOLS, "deps": Session(backend.effects)}
    if chat.continues is None:
        history = [Content.system(SYSTEM), *chat.history]
        run_key = f"chat-{message_id}"
        run = run_loop(create_new_stream, provider=provider, model=MODEL, history=history, run_key=run_key, **options)
    else:
        answered = take_answered(chat)
        if answered is None:  # an error, after which a page does not post it again by itself
            return JSONResponse({"error": "no call waits for this answer"}, 409)
        run = run_loop(create_new_stream, resume=answered, **options)
    log = await backend.runs.start(run, make_frames(chat, run, stream, message_id))
    left = None if request.headers.get("x-judge-resumable") == "1" else run.cancel
    return StreamingResponse(await log.follow(log.start, left=left), headers=HEADERS)


async def make_frames(
    chat: Chat, run: Run[Any], stream: UiMessageStream, message_id: str
) -> AsyncGenerator[bytes, None]:
    """Make a run and yield the frames of its stream; a run that waits is stored before the page can answer."""
    if chat.id:
        running[chat.id] = run.run_key
    try:
        async with run:
            async for event in run:
                if isinstance(event, RunEnded) and run.state is not None:
                    waiting_file(chat.id, message_id).write_text(run.state.dump())
                yield stream.write(event)
    except StreamInterrupted:
        pass  # the stream has it
    finally:
        if chat.id and running.get(chat.id) == run.run_key:
            del running[chat.id]
    yield stream.close()


def describe_end(event: RunEnded) -> dict[str, Any]:
    """Return what a page shows about a response."""
    usage = event.usage
    tokens = {} if usage is None else {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens}
    return {"model": MODEL, "usage": tokens}


def waiting_file(chat_id: str | None, message_id: str) -> Path:
    """Return the file of a run that waits for answers: of one message of one chat."""
    name = sha256(repr((chat_id, message_id)).encode()).hexdigest()
    return Path(os.environ["STATE"]) / f"waiting-{name}.json"


def take_answered(chat: Chat) -> AnsweredState | None:
    """Return the waiting run with the page's answers, once; None if there is no such run or no answer to it."""
    file = waiting_file(chat.id, chat.continues or "")
    try:
        taken = file.rename(file.with_suffix(f".{uuid4().hex}"))  # one request of all gets it
    except FileNotFoundError:
        return None
    answered = chat.answer(RunState.load(taken.read_text()))
    if answered is None:
        taken.rename(file)
    else:
        taken.unlink()
    return answered


async def get_stream(request: Request) -> Response:
    """Return the stream of a chat's running response from its beginning."""
    run_key = running.get(request.path_params["id"])
    if run_key is None:
        return Response(status_code=204)
    return StreamingResponse(await request.app.state.backend.runs.log(run_key).follow(), headers=HEADERS)


async def stop_chat(request: Request) -> Response:
    """Stop a chat's running response."""
    run_key = running.get(request.path_params["id"])
    if run_key is not None:
        request.app.state.backend.runs.run(run_key).cancel()
    return JSONResponse({"stopped": run_key is not None})


routes: list[Route] = [
    Route("/api/chat", post_chat, methods=["POST"]),
    Route("/api/chat/{id}/stream", get_stream),
    Route("/api/chat/{id}/stop", stop_chat, methods=["POST"]),
]
