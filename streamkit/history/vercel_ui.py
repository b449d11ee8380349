"""The importer of the Vercel AI SDK's UI messages, which ``useChat`` sends to the server.

Shapes: https://github.com/vercel/ai/blob/main/packages/ai/src/ui/ui-messages.ts (versions 5 and 6; version 4 has
``content`` and ``toolInvocations`` instead of, or next to, ``parts``). A tool part has the call and, once there is one,
its result. One message of the assistant contains all steps of its answer: ``step-start`` begins a new content, as in
the SDK's ``convertToModelMessages``.

Parts for the user interface alone (sources, ``data-...``) are no part of what a model gets: they are kept as opaque
blocks. An unfinished call (``input-streaming``) is one, too.

``bridges.vercel_ui`` sends what the provider of a block needs again as ``providerMetadata.streamkit``: ``provider``,
``model`` and ``requested_model`` of the block, and as far as it has them ``signature``, ``metadata``, ``kind``,
``refusal``, ``id``, ``raw_id`` and ``raw``. The module must not depend on any provider.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from streamkit.history.builder import ContentBuilder, as_list
from streamkit.history.content import Content, FileBlock, ImageBlock, ReasoningBlock, ServerToolBlock, TextBlock
from streamkit.history.input_checks import check_messages
from streamkit.history.stored_data import to_stored_data
from streamkit.values.media import is_url, parse_data_url
from streamkit.values.message_format import FOREIGN, OWN, POSSIBLE, Rating

__all__ = [
    "DATA_OF_PART",
    "INTERRUPTED",
    "STATE",
    "Json",
    "parse_vercel_ui_messages",
    "rate_vercel_ui_message",
    "swap_data",
]

STATE = "streamkit"  #: streamkit's field of a part's ``providerMetadata``, and the name of its data part
INTERRUPTED = "interrupted"  #: the data of that part: the response of the step has not ended
DATA_OF_PART = "[data of the file]"  #: stands in a provider's part for the data that the file has anyway
Json: TypeAlias = dict[str, Any]
#: The fields in which the providers of npm ``ai`` keep the state of a part
#: (https://github.com/vercel/ai/tree/main/packages: anthropic, amazon-bedrock, google, openai).
_NPM_STATE = ("signature", "redactedData", "thoughtSignature", "reasoningEncryptedContent")
NpmState: TypeAlias = Callable[[str, str | None, str | None], Json]
_ORIGIN = ("provider", "model", "requested_model")

_SPEAKERS = {"user": "human", "assistant": "ai", "system": "system"}
_MESSAGE_FIELDS = ("id", "role", "parts", "content", "toolInvocations", "experimental_attachments", "reasoning")
_CALL_FIELDS = ("type", "toolCallId", "toolName", "state", "input", "args", "rawInput", "output", "result", "errorText")
_DENIED = "Tool execution denied."


def rate_vercel_ui_message(message: Mapping[str, Any]) -> Rating:
    """Return whether a message is one of the SDK's ``UIMessage``: it has parts with a type."""
    role = message.get("role")
    if not isinstance(role, str) or (role not in _SPEAKERS and role != "data"):
        return FOREIGN
    parts = message.get("parts")
    if isinstance(parts, list):
        has_types = all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in parts)
        return OWN if has_types else FOREIGN
    if isinstance(message.get("toolInvocations"), list):
        return OWN
    is_text = isinstance(message.get("content"), str) and "tool_calls" not in message
    return POSSIBLE if is_text else FOREIGN


def parse_vercel_ui_messages(
    messages: Sequence[dict[str, Any]], npm_state: NpmState, *, system: Any = None, changes: list[str] | None = None
) -> list[Content]:
    """Parse UI messages as history; an unknown part is kept as an opaque block.

    Args:
        messages: the ``UIMessage`` objects of version 4 to 7, as dicts.
        npm_state: returns the state that npm ``ai`` has kept for a provider: of the provider's name there, the state,
            and the text of reasoning.
        system: the system text, if it is separate from the messages.
        changes: receives a sentence for each part that is kept opaque, and for each field that is left out.

    Raises:
        UsageError: they are not a list of dicts. Nothing else is raised, whatever they contain.
    """
    builder = ContentBuilder("vercel", changes, prefixed=True)
    for text in as_list(system):
        if not builder.text("system", text):
            builder.opaque("system", text)
    for message in check_messages(messages):
        role = message.get("role")
        speaker = _SPEAKERS.get(role) if isinstance(role, str) else None
        builder.end()
        if speaker is None:
            builder.add_unknown_role(message)
            continue
        builder.report_unread(message, _MESSAGE_FIELDS, "a message")
        _MessageReader(builder, speaker, npm_state).read(message)
    return builder.build()


class _MessageReader:
    """A reader of one message. The results of a step follow its calls."""

    def __init__(self, builder: ContentBuilder, speaker: str, npm_state: NpmState) -> None:
        self._builder = builder
        self._speaker = speaker
        self._npm_state = npm_state
        self._reasoning: tuple[str, ReasoningBlock] | None = None  # the last one, with its item of several parts
        self._results: list[Mapping[str, Any]] = []  # the tool parts of the current step that have a result
        self._is_cut = False  # the response of the current step has not ended
        self._origin: Json = {}  # what made the current step
        self._number = 0  # of parts of the step
        self._late: dict[int, list[ServerToolBlock]] = {}  # results of the provider's tools, by the part they follow

    def read(self, message: Mapping[str, Any]) -> None:
        """Add the message's parts to the builder."""
        parts = as_list(message.get("parts"))
        if not parts:  # version 4, which repeats these in its parts if it has any
            for attachment in as_list(message.get("experimental_attachments")):
                if isinstance(attachment, dict) and isinstance(attachment.get("url"), str):
                    self._builder.report_unread(attachment, ("url", "contentType", "name"), "an attachment")
                    self._add_file(attachment["url"], attachment.get("contentType"), attachment.get("name"), {})
                else:
                    self._builder.opaque(self._speaker, attachment)
            if message.get("reasoning"):
                self._read_part({"type": "reasoning", "text": message["reasoning"]})
            for invocation in as_list(message.get("toolInvocations")):
                self._read_part({"type": "tool-invocation", "toolInvocation": invocation})
            self._flush_results()
            for text in as_list(message.get("content")):
                self._read_part({"type": "text", "text": text} if isinstance(text, str) else text)
        for part in parts:
            self._read_part(part)
            for block in self._late.pop(self._number, ()):
                self._builder.add_block("ai", block)
        self._flush_results()
        self._builder.end()

    def _read_part(self, part: Any) -> None:
        kind = part.get("type") if isinstance(part, dict) else None
        if self._speaker == "ai" and isinstance(kind, str) and kind != "step-start":
            # A page that stops reading has parts that have not ended.
            self._is_cut = self._is_cut or part.get("state") in ("streaming", "input-streaming")
            self._number += kind in ("text", "reasoning", "file", "dynamic-tool") or kind.startswith("tool-")
        if not isinstance(kind, str):
            self._builder.opaque(self._speaker, part)
        elif kind == "step-start":
            self._flush_results()
        elif kind == f"data-{STATE}":
            self._is_cut = True
        elif kind == "text" and isinstance(part.get("text"), str):
            self._read_text(part)
        elif kind == "reasoning" and isinstance(part.get("text", part.get("reasoning")), str):
            self._read_reasoning(part)
        elif kind == "file" and isinstance(part.get("url", part.get("data")), str):
            self._read_file(part)
        elif kind == "tool-invocation" and isinstance(part.get("toolInvocation"), dict):
            self._read_invocation(part["toolInvocation"])
        elif kind == "dynamic-tool" and self._speaker == "ai":
            self._read_tool(part, part.get("toolName"))
        elif kind.startswith("tool-") and "toolCallId" in part and self._speaker == "ai":
            self._read_tool(part, kind.removeprefix("tool-"))
        else:
            self._builder.opaque(self._speaker, part)

    def _read_text(self, part: Mapping[str, Any]) -> None:
        self._builder.report_unread(part, ("type", "text", "state", "providerMetadata"), "a text part")
        metadata, state = self._metadata(part) if self._speaker == "ai" else ({}, {})
        if not part["text"] and not state:
            return
        if self._speaker != "ai":
            self._builder.report_unread(part, ("type", "text", "state"), "a text part")
        metadata |= {name: state[name] for name in ("signature", "refusal") if state.get(name)}
        self._builder.add_block(self._speaker, TextBlock(text=part["text"], metadata=metadata))

    def _read_reasoning(self, part: Mapping[str, Any]) -> None:
        known = ("type", "id", "text", "reasoning", "details", "state", "providerMetadata")
        self._builder.report_unread(part, known, "a reasoning part")
        text = part.get("text", part.get("reasoning"))
        metadata, state = self._metadata(part, text=text, details=part.get("details"))
        opaque, signature, kind = metadata.pop("opaque", None), state.get("signature"), state.get("kind")
        block = ReasoningBlock(
            text=text,
            kind="summary" if kind == "summary" else "plan" if kind == "plan" else "text",
            signature=signature if isinstance(signature, str) else None,
            opaque=opaque,
            metadata=metadata,
        )
        item_id = state.get("item_id")
        if item_id and self._reasoning is not None and self._reasoning[0] == item_id:
            self._reasoning[1].text += f"\n\n{text}"  # npm ai has a part for each summary of an item
            return
        self._reasoning = (item_id, block) if item_id else None
        self._builder.add_block("ai", block)

    def _metadata(
        self, part: Mapping[str, Any], field: str = "providerMetadata", *, text: str | None = None, **extras: Any
    ) -> tuple[Json, Json]:
        """Return the metadata of a part's block, and what its provider needs again, as streamkit sends it."""
        options = part.get(field)
        state = options.get(STATE) if isinstance(options, dict) else None
        if isinstance(options, dict) and state is None and part.get("providerExecuted") is not True:
            for name, kept in options.items():
                kept = kept if isinstance(kept, dict) else {}
                opaque = next((kept[key] for key in _NPM_STATE if isinstance(kept.get(key), str)), None)
                if state := self._npm_state(name, opaque, text):
                    state |= {"item_id": kept.get("itemId"), "raw_id": part.get("toolCallId")}
                    break
        if not isinstance(state, dict) or not isinstance(state.get("provider"), str):
            return self._builder.provider_metadata({**extras, "providerMetadata": options}), {}
        origin = {name: state[name] for name in _ORIGIN if isinstance(state.get(name), str)}
        self._origin, kept = origin, state.get("metadata")
        return {**(kept if isinstance(kept, dict) else {}), **origin}, state

    def _read_file(self, part: Mapping[str, Any]) -> None:
        known = ("type", "mediaType", "mimeType", "filename", "url", "data")
        self._builder.report_unread(part, known, "a file part")
        address = part.get("url", part.get("data"))
        media_type = part.get("mediaType", part.get("mimeType"))
        self._add_file(address, media_type, part.get("filename"), part)

    def _add_file(self, address: str, media_type: Any, name: Any, part: Mapping[str, Any]) -> None:
        kind = media_type if isinstance(media_type, str) else None
        name = name if isinstance(name, str) else None
        is_address = is_url(address, ("http", "https", "gs", "s3"))
        is_image = (kind or "").startswith("image/") and (is_address or parse_data_url(address) is not None)
        if is_image and self._speaker != "ai":
            self._builder.add_block(self._speaker, ImageBlock(data=address, metadata={"name": name} if name else {}))
            return
        file = FileBlock(
            media_type=kind, name=name, url=address if is_address else None, data=None if is_address else address
        )
        if self._speaker == "ai":
            metadata, state = self._metadata(part)
            if state and (data := parse_data_url(address)) is not None:
                file = FileBlock(media_type=kind, data=data.data)
            if isinstance(state.get("raw"), dict):
                metadata["raw"] = swap_data(state["raw"], DATA_OF_PART, file.data)
            file.metadata.update(to_stored_data(metadata))
        self._builder.add_block(self._speaker, file)

    # ------------------------------------------------------------ tools

    def _read_invocation(self, invocation: Mapping[str, Any]) -> None:
        """Read a tool invocation of version 4: its states are ``partial-call``, ``call`` and ``result``."""
        states = {"partial-call": "input-streaming", "call": "input-available", "result": "output-available"}
        state = invocation.get("state")
        part = {**invocation, "state": states.get(state, state) if isinstance(state, str) else state}
        part["input"], part["output"] = invocation.get("args"), invocation.get("result")
        if self._speaker == "ai":
            self._read_tool(part, invocation.get("toolName"))
        else:
            self._builder.opaque(self._speaker, invocation)

    def _read_tool(self, part: Mapping[str, Any], name: Any) -> None:
        state = part.get("state")
        if state == "input-streaming":  # the arguments are incomplete, and the SDK leaves the call out, too
            self._builder.opaque("ai", dict(part))
            return
        arguments = part.get("input")
        if arguments is None and state == "output-error":
            arguments = part.get("rawInput")
        if part.get("providerExecuted") is True:
            metadata, sent = self._metadata(part, "callProviderMetadata")
            _, later = self._metadata(part, "resultProviderMetadata")
            call_id = sent.get("id") if sent else part.get("toolCallId")
            raw = [dict(part)]
            if sent:
                placed = [item for item in (*as_list(sent.get("raw")), *as_list(later.get("raw"))) if _is_placed(item)]
                raw = [item for number, item in placed if number <= self._number]
                for number, item in placed:
                    if number > self._number:
                        self._late.setdefault(number, []).append(ServerToolBlock(raw=[item], metadata=dict(metadata)))
            block = ServerToolBlock(
                id=call_id if isinstance(call_id, str) else None,
                name=name if isinstance(name, str) else "",
                arguments=arguments,
                result=part.get("output") if state == "output-available" else part.get("errorText"),
                raw=raw,
                metadata=metadata,
            )
            self._builder.add_block("ai", block)
            return
        metadata, sent = self._metadata(part, "callProviderMetadata")
        known = (*_CALL_FIELDS, "callProviderMetadata") if sent else _CALL_FIELDS
        extras = {key: value for key, value in part.items() if key not in known and isinstance(key, str)}
        call = self._builder.call(name, arguments, raw_id=part.get("toolCallId"), extras={} if sent else extras)
        if sent:
            raw_id = sent.get("raw_id")
            call.metadata.pop("raw_id", None)
            call.metadata |= to_stored_data({**metadata, **({"raw_id": raw_id} if isinstance(raw_id, str) else {})})
        approval = part.get("approval")
        is_denied = isinstance(approval, dict) and approval.get("approved") is False
        has_output = state == "output-available" and part.get("preliminary") is not True
        if has_output or state in ("output-error", "output-denied") or is_denied:
            self._results.append({**part, "toolName": name})

    def _flush_results(self) -> None:
        """Add the results of the step, after all its calls."""
        results, self._results = self._results, []
        if self._speaker == "ai":
            for late in self._late.values():
                for block in late:
                    self._builder.add_block("ai", block)
            self._builder.describe(**self._origin, **({"interrupted": True} if self._is_cut else {}))
            self._is_cut, self._origin, self._number, self._late = False, {}, 0, {}
            self._builder.end()
        for part in results:
            call_id, name, state = part.get("toolCallId"), part.get("toolName"), part.get("state")
            approval = part.get("approval")
            if state == "output-available":
                self._builder.result(call_id, part.get("output"), name=name)
            elif state == "output-error":
                error = part.get("errorText")
                self._builder.result(call_id, name=name, error=error if isinstance(error, str) else "")
            else:
                reason = approval.get("reason") if isinstance(approval, dict) else None
                error = reason if isinstance(reason, str) and reason else _DENIED
                self._builder.result(call_id, name=name, error=error, status="denied")
        if results:
            self._builder.end()


def _is_placed(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 2 and item[0].__class__ is int


def swap_data(value: Any, old: Any, new: Any) -> Any:
    """Return JSON data with *new* in each place of the text *old*."""
    if isinstance(value, dict):
        return {name: swap_data(item, old, new) for name, item in value.items()}
    if isinstance(value, list):
        return [swap_data(item, old, new) for item in value]
    return new if isinstance(value, str) and value == old else value
