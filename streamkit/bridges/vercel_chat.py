"""What a page of npm ``ai`` posts: the body of ``DefaultChatTransport``, as history and as answers to a waiting run.

A post is foreign. It says what the conversation was, as far as the page shows it, and nothing else: the arguments that
run, and the calls that can be answered, are those of the stored state. The module is pure and must not depend on a web
framework. Import its names from ``streamkit.bridges.vercel_ui``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamkit.bridges.pages import read_body, shows_arguments
from streamkit.errors import StreamkitError, ToolFailed, UsageError
from streamkit.execution.durable.state import AnsweredState, RunState
from streamkit.history.content import Content, ImageBlock, TextBlock, ToolResponseBlock
from streamkit.history.result_parts import result_parts
from streamkit.history.vercel_ui import STATE, Json
from streamkit.providers import parse_messages, render
from streamkit.tools import Approval
from streamkit.values.media import is_base64, is_url, parse_data_url

__all__ = ["Chat", "InvalidChat", "parse_chat"]

_MAX_DEPTH = 128  # of a posted body: a stored content takes further levels
_PLAIN = frozenset({"provider", "model", "requested_model", "raw_id", "raw_arguments", "name", "providerMetadata"})
_READ_PARTS = ("text", "reasoning", "file", "dynamic-tool", "step-start", f"data-{STATE}")


class InvalidChat(StreamkitError, ValueError):
    """A posted body that is no chat, or has parts that a page may not send. Answer it with status 400 and its text."""


@dataclass(frozen=True, slots=True)
class Chat:
    """What a page has posted.

    Attributes:
        id: the id of the chat, None if there is none. It is the page's word: check whose chat it is.
        history: the conversation, for a run that starts now.
        continues: the id of the last message if it is the assistant's: of a run that waits for answers.
        changes: a sentence for each part of a message that history has no place for.
    """

    id: str | None
    history: list[Content]
    continues: str | None
    changes: list[str]
    _calls: Mapping[str, Json] = field(repr=False)

    def answer(self, state: RunState) -> AnsweredState | None:
        """Return a waiting run with the page's answers, for ``run_loop(resume=)``; None if the page has none for it.

        An answer counts if the run waits for it, from a person or from a tool of the page, and if the page shows the
        tool and the arguments that the run has. All others are left out. The state must not be given to two runs: take
        it out of its storage first, or resume with the ``checkpoint`` of a store.
        """
        approvals: dict[str, Approval] = {}
        results: dict[str, Any] = {}
        for call in state.calls:
            part = self._calls.get(call.id, {})
            name, kind, approval = part.get("toolName", part.get("type")), part.get("state"), part.get("approval")
            if name not in (call.name, f"tool-{call.name}") or not shows_arguments(call, part.get("input")):
                continue
            if call.id in state.pending and kind == "approval-responded" and isinstance(approval, dict):
                allow, reason = approval.get("approved"), approval.get("reason")
                if approval.get("id") == call.id and isinstance(allow, bool):
                    approvals[call.id] = Approval(allow, reason=reason if isinstance(reason, str) else None)
            elif call.id in state.awaiting_results and kind == "output-available" and not part.get("preliminary"):
                results[call.id] = part.get("output")
            elif call.id in state.awaiting_results and kind == "output-error":
                text = part.get("errorText")
                results[call.id] = ToolFailed(text if isinstance(text, str) else "")
        return state.answer(approvals=approvals, results=results) if approvals or results else None


def parse_chat(body: bytes | str | Mapping[str, Any], *, allow_system: bool = False) -> Chat:
    """Read the body that the ``DefaultChatTransport`` of a page posts.

    Args:
        body: the JSON, or its object.
        allow_system: whether a message of the role ``system`` is an instruction to the model. By default it is refused,
            because anybody can post one.

    Raises:
        InvalidChat: it is no chat, or has what a page may not send: a system message, or a file that is neither a data
            URL nor an http address. Nothing else is raised, whatever the body contains.
    """
    chat = read_body(dict(body) if isinstance(body, Mapping) else body, _MAX_DEPTH)
    if not isinstance(chat, dict):
        raise InvalidChat(f"the body must be a JSON object that is nested at most {_MAX_DEPTH} levels deep")
    messages, changes, shown = chat.get("messages"), list[str](), list[Json]()
    for message in messages if isinstance(messages, list) else ():
        parts = _check_parts(message, ("user", "assistant", *(("system",) if allow_system else ())))
        shown.append({"role": message["role"], "parts": parts})
    history = parse_messages(shown, "vercel_ui", changes=changes)
    if not history:
        raise InvalidChat("the body has no messages with a text, a file or a call")
    for content in history:
        content.blocks = [block if _is_itself(block) else _without_state(block) for block in content.blocks]
        results = [block.result for block in content.blocks if isinstance(block, ToolResponseBlock)]
        for file in (part for result in results for part in result_parts(result) or ()):
            address = getattr(file, "data" if isinstance(file, ImageBlock) else "url", None)
            if address and address[:5].lower() != "data:":
                _check_address(address)
    last = messages[-1] if shown[-1]["role"] == "assistant" else {}  # type: ignore[index]
    calls = {part["toolCallId"]: part for part in last.get("parts", ()) if isinstance(part.get("toolCallId"), str)}
    ids = [value if isinstance(value, str) and value else None for value in (chat.get("id"), last.get("id"))]
    return Chat(ids[0], history, ids[1], changes, calls)


def _check_parts(message: Any, roles: tuple[str, ...]) -> list[Json]:
    """Return the parts of a message that are of the conversation, and not of the page alone."""
    if not isinstance(message, dict) or message.get("role") not in roles or not isinstance(message.get("parts"), list):
        raise InvalidChat(f"a message must be an object with parts and a role, {' or '.join(roles)}")
    for part in message["parts"]:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise InvalidChat("a part of a message must be an object with a type")
        if part["type"] == "file":
            _check_address(part.get("url"))
    return [part for part in message["parts"] if part["type"] in _READ_PARTS or part["type"].startswith("tool-")]


def _is_itself(block: Any) -> bool:
    """Return True if the provider's own form of a block is of the model and of its kind.

    A page can post any such form. One that is a message of the system, tools, or a reference to what the provider has
    stored would be sent as it is. So it is written as its provider gets it, and must be read from that as what it is.
    """
    if block.metadata.keys() <= _PLAIN and not getattr(block, "raw", None) and getattr(block, "opaque", None) is None:
        return True
    provider = block.metadata.get("provider")
    answer = Content(speaker="ai", blocks=[block, TextBlock(text=".", metadata={"provider": provider})])
    try:
        messages = render([Content.human("."), answer], provider, repair=False, unsupported="drop")
        _, *read = parse_messages(messages, provider)
    except UsageError:
        return False
    kinds = {TextBlock, type(block)}
    return all(content.speaker == "ai" and kinds.issuperset(map(type, content.blocks)) for content in read)


def _without_state(block: Any) -> Any:
    fields = {name: None for name in ("opaque", "signature") if hasattr(block, name)}
    return block.model_copy(update={**fields, "metadata": {}, **({"raw": []} if hasattr(block, "raw") else {})})


def _check_address(address: Any) -> None:
    """Refuse an address that is not of the web: files and buckets of the server's side are none of the page's."""
    data = parse_data_url(address) if isinstance(address, str) else None
    if not (isinstance(address, str) and is_url(address)) and (data is None or not is_base64(data.data)):
        raise InvalidChat("a file must be a data URL or an http address")
