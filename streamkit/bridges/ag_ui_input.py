"""What a page of AG-UI posts: the input of a run, with the conversation as history. ``ag_ui`` is the bridge.

* Everything here is foreign: it raises nothing but ``InvalidInput``. What runs, and with which arguments, is decided by
  the stored state; a page that shows other arguments approves nothing.
* What a response made is one content, also if a client has posted its reasoning, its text and each of its calls in
  messages of their own. What no model can read is left out, as the protocol wants it
  (https://docs.ag-ui.com/spec/1.0/basic/run-input).
* ``encryptedValue`` is the state that a block's provider wants back, signed by the application: a provider's own block
  may contain anything, also instructions of the system.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from ag_ui.core import ResumeEntry, RunAgentInput
from pydantic import ValidationError

from streamkit.bridges.pages import read_body, shows_arguments
from streamkit.calls import ToolCall
from streamkit.errors import StreamkitError, ToolFailed, UsageError
from streamkit.execution import AnsweredState, RunState
from streamkit.history import Content, ImageBlock, ReasoningBlock, TextBlock, ToolCallBlock, ToolResponseBlock
from streamkit.history.builder import ContentBuilder
from streamkit.history.content import create_block
from streamkit.history.result_parts import ResultPart, read_part
from streamkit.history.tool_results import to_stored_part
from streamkit.json_text import to_valid_json
from streamkit.tools import AnyTool, Approval, Tool
from streamkit.tools.toolset import to_tools
from streamkit.values.media import is_base64, is_url, parse_data_url, to_data_url
from streamkit.values.request_changes import LeftOut, Lost
from streamkit.values.signatures import is_signed, sign

__all__ = ["InvalidInput", "RunInput", "parse_input", "seal_state"]

_DEEPEST = 100  # levels of an input
_MARK = b"ag-ui-state-1:"  # what is signed begins with it
_SIZE = 16  # bytes of a signature
_MEDIA = ("image", "audio", "video", "document", "binary")  # the last of clients before 1.0


class InvalidInput(StreamkitError, ValueError):
    """A body that is no input of a run, or has an answer to no open question. Reply with status 400 and the text."""


@dataclass(frozen=True)
class RunInput:
    """The input of a run.

    Attributes:
        posted: what was posted, without messages: ``thread_id``, ``state``, ``context``, ... None of it is an
            instruction of the application.
        history: the conversation as the page has it.
        tools: the page's own tools, without functions.
        changes: a sentence for each thing in the messages that was left out.
        key: the key of ``parse_input``.
    """

    posted: RunAgentInput
    history: list[Content] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    key: bytes | None = field(default=None, repr=False)

    def tools_beside(self, own: Sequence[AnyTool]) -> list[Tool]:
        """Return the page's tools, without those that would replace one of the application's."""
        names = to_tools(own)
        return [tool for tool in self.tools if tool.name not in names]

    def answer(self, state: RunState | None) -> AnsweredState | None:
        """Return the waiting run of the thread with the page's answers, for ``run_loop(resume=)``.

        Forget the state when it is resumed: it is answered once. What has no answer is asked again at the end.

        Args:
            state: of the thread's last run; None if that awaits nothing.

        Returns:
            None if this is an ordinary run, of ``history``.

        Raises:
            InvalidInput: an answer is to no open interrupt, or approves something else than was asked.
        """
        answers = {entry.interrupt_id: entry for entry in self.posted.resume or ()}
        pending = [] if state is None else state.pending
        if len(answers) < len(self.posted.resume or ()) or not answers.keys() <= set(pending):
            raise InvalidInput("each entry of resume must answer an interrupt of its own that is open in this thread")
        if state is None:
            return None
        blocks = [block for content in self.history for block in content.blocks]
        shown = [block for block in blocks if isinstance(block, ToolCallBlock)]
        given = {block.call_id: block for block in reversed(blocks) if isinstance(block, ToolResponseBlock)}
        asked = [call for call in state.calls if call.id in answers]
        approvals = {call.id: _decide(call, answers[call.id], shown) for call in asked}
        results: dict[str, Any] = {}
        for name in state.awaiting_results:
            if (result := given.get(name)) is not None:
                results[name] = result.result if result.error is None else ToolFailed(result.error)
            elif self.follow_up(state):
                results[name] = ToolFailed("The page has given no result.")
        if not pending and not results and not any(block.id in state.awaiting_results for block in shown):
            return None  # the page went back to before these calls
        try:
            return state.answer(approvals=approvals, results=results)
        except UsageError as error:  # such as a second decision on a call of a run that was stopped
            raise InvalidInput(str(error)) from None

    def follow_up(self, state: RunState) -> list[Content]:
        """Return the person's contents since the waiting run asked, for ``run.send``; none while it still asks."""
        if not {entry.interrupt_id for entry in self.posted.resume or ()}.issuperset(state.pending):
            return []
        calls, later = {call.id for call in state.calls}, list[Content]()
        for content in reversed(self.history):
            if any(isinstance(block, ToolCallBlock) and block.id in calls for block in content.blocks):
                return [content for content in reversed(later) if content.speaker == "human"]
            later.append(content)
        return []


def _decide(call: ToolCall, entry: ResumeEntry, shown: Sequence[ToolCallBlock]) -> Approval:
    """Return the decision on a call. It runs with the arguments that were asked about, or not at all."""
    answer = entry.payload if isinstance(entry.payload, dict) else {}
    if entry.status == "cancelled":
        return Approval(False, reason="The request was canceled.")
    approved, reason = answer.get("approved"), answer.get("reason")
    if not isinstance(approved, bool):
        raise InvalidInput(f'the answer to {call.id} must have "approved", true or false')
    values = [value for name, value in answer.items() if name not in ("approved", "reason") and value is not None]
    own = [block for block in shown if block.id == call.id]
    values += [block.parameters for block in own if "raw_arguments" not in block.metadata]  # else it shows no JSON
    if approved and not (shows_arguments(call, *values) and all(block.name == call.name for block in own)):
        raise InvalidInput(f"the answer to {call.id} is about something else than was asked")
    return Approval(approved, reason=reason if isinstance(reason, str) and reason else None)


def parse_input(
    body: bytes | str | dict[str, Any] | RunAgentInput, *, key: bytes | None = None, allow_system: bool = False
) -> RunInput:
    """Return the input of a run that a page has posted. What is unknown is left out, as the protocol wants it.

    Args:
        body: the body of the request, its JSON, or the object of the package ``ag_ui``.
        key: a secret of the application, which signs the opaque state that the page gets; without one it gets none.
        allow_system: keep messages of the roles ``system`` and ``developer``: the page then gives instructions.

    Raises:
        InvalidInput: it is no such input, or has nothing to reply to.
    """
    posted_body = body.model_dump(mode="json", by_alias=True) if isinstance(body, RunAgentInput) else body
    data = read_body(posted_body, _DEEPEST)
    messages = data.get("messages") if isinstance(data, dict) else None
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise InvalidInput(f"the body must be a RunAgentInput with messages, JSON of at most {_DEEPEST} levels")
    try:
        posted = RunAgentInput.model_validate({**data, "messages": []})
        tools = {}
        for tool in posted.tools or ():
            schema = {"type": "object", **(tool.parameters if isinstance(tool.parameters, dict) else {})}
            tools[tool.name] = Tool(name=tool.name, description=tool.description or tool.name, parameters=schema)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InvalidInput(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except UsageError as error:
        raise InvalidInput(str(error)) from None
    reader = _MessageReader(key, {"user", "system", "developer"} if allow_system else {"user"})
    history = reader.read(messages)
    if not history and not posted.resume:
        raise InvalidInput("messages must have one to reply to")
    return RunInput(posted, history, list(tools.values()), reader.changes, key)


# ---------------------------------------------------------------- messages


def seal_state(owner: str, metadata: dict[str, Any], key: bytes, **fields: Any) -> str:
    """Return a block's metadata and other fields as an ``encryptedValue``.

    Args:
        owner: what accepts it again: ``assistant``, ``reasoning``, or the id of a call.
        metadata: the metadata.
        key: the key of ``parse_input``.
        fields: the other fields; what is None is left out.
    """
    state = {name: value for name, value in fields.items() if value is not None}
    data = msgspec.json.encode(to_valid_json([owner, {**state, "metadata": metadata}]))
    return b64encode(sign(_MARK + data, key, _SIZE) + data).decode()


class _MessageReader:
    """A reader of messages: ``speaking`` are the roles that are kept, except the model's."""

    def __init__(self, key: bytes | None, speaking: set[str]) -> None:
        self.changes: list[str] = []
        self._builder = ContentBuilder("ag_ui", self.changes, prefixed=True)
        self._keys = [] if key is None else [key]
        self._speaking = speaking

    def read(self, messages: Sequence[dict[str, Any]]) -> list[Content]:
        """Return the contents of messages."""
        for message in messages:
            role = str(message.get("role"))
            if role in ("assistant", "reasoning"):
                self._read_response(message, role)
            elif role == "tool":
                self._read_result(message)
            elif role in self._speaking:
                self._builder.end()
                for block in self._read_parts(message.get("content")):
                    self._builder.add_block("human" if role == "user" else "system", block)
                self._builder.end()
            elif role != "activity":  # which are the page's own
                self._builder.report(Lost(f"left out a message of the role {role[:64]!r}"))
        return self._builder.build()

    def _read_response(self, message: dict[str, Any], role: str) -> None:
        content, state = message.get("content"), self._open(message, role)
        text = content if isinstance(content, str) else ""
        kind: type[TextBlock | ReasoningBlock] = TextBlock if role == "assistant" else ReasoningBlock
        if text or state:
            self._builder.add_block("ai", create_block(kind, text=text, **{"metadata": {"provider": "ag_ui"}, **state}))
        calls = message.get("toolCalls") if role == "assistant" else None
        for call in calls if isinstance(calls, list) else ():
            function: Any = call.get("function") if isinstance(call, dict) else None
            name, call_id = (function.get("name"), call.get("id")) if isinstance(function, dict) else (None, None)
            if not name or not isinstance(name, str) or not call_id or not isinstance(call_id, str):
                self._builder.report(Lost("left out a call without a name or an id"))
                continue
            block = self._builder.call(name, function.get("arguments"), raw_id=call_id)
            if state := self._open(call, block.id):
                kept = {name: value for name, value in block.metadata.items() if name == "raw_arguments"}
                block.metadata = {**kept, **state["metadata"]}

    def _read_result(self, message: dict[str, Any]) -> None:
        call_id, content, error = message.get("toolCallId"), message.get("content"), message.get("error")
        if not isinstance(call_id, str) or not call_id:
            self._builder.report(Lost("left out a result without the id of its call"))
            return
        if isinstance(content, list):
            blocks = self._read_parts(content)
            texts = [block.text for block in blocks if isinstance(block, TextBlock)]
            content = "".join(texts) if len(texts) == len(blocks) else [to_stored_part(block) for block in blocks]
        self._builder.result(call_id, content, error=error if isinstance(error, str) and error else None)

    def _read_parts(self, content: Any) -> list[ResultPart]:
        blocks: list[ResultPart] = []
        for part in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            block = _read_part(part) if isinstance(part, dict) else None
            if block is None:
                kind = part.get("type") if isinstance(part, dict) else None
                self._builder.report(Lost(f"left out a part of the type {str(kind)[:64]!r}"))
            elif not isinstance(block, TextBlock) or block.text:
                blocks.append(block)
        return blocks

    def _open(self, entity: dict[str, Any], owner: str) -> dict[str, Any]:
        """Return the state of a message or a call as fields of its block; empty without any that we have signed."""
        value = entity.get("encryptedValue")
        if not isinstance(value, str) or not value:
            return {}
        try:
            sealed = b64decode(value, validate=True)
        except ValueError:
            sealed = b""
        if is_signed(_MARK + sealed[_SIZE:], sealed[:_SIZE], self._keys, _SIZE):
            signed_owner, state = json.loads(sealed[_SIZE:])
            if signed_owner == owner:
                return dict(state)
        self._builder.report(LeftOut("left out an encrypted value that this application has not signed"))
        return {}


def _read_part(part: dict[str, Any]) -> ResultPart | None:
    """Return a part as a block; None if its data is no base64, or its address is not one that a provider fetches."""
    kind, source, about = part.get("type"), part.get("source"), part.get("metadata")
    if kind == "text":
        return read_part({"type": "text", "text": part.get("text")})
    if kind == "binary":
        kept = "data" if part.get("data") else "url"
        source, about = {"type": kept, "value": part.get(kept), "mimeType": part.get("mimeType")}, part
    if kind not in _MEDIA or not isinstance(source, dict):
        return None
    value, media_type = source.get("value"), source.get("mimeType")
    field: Any = source.get("type")
    if field not in ("data", "url") or not isinstance(value, str):
        return None
    if field == "url" and (data_url := parse_data_url(value)) is not None:
        field, value, media_type = "data", data_url.data, data_url.media_type
    if not is_url(value) if field == "url" else not (value and is_base64(value) and isinstance(media_type, str)):
        return None
    if kind == "image" or str(media_type).startswith("image/"):
        return ImageBlock(data=value if field == "url" else to_data_url(value, str(media_type)))
    name = about.get("filename") if isinstance(about, dict) else None
    return read_part({"type": "file", "media_type": media_type, field: value, "name": name})
