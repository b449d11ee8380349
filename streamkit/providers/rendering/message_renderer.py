"""The base classes of the providers' renderers: history to messages, with ids, changes and spans.

Two forms cover most wires. `block_renderer.AlternatingRenderer`: messages of two roles alternate, each a list of parts
(Anthropic, Bedrock, Gemini). `RoleRenderer`: a message has one role, tool results are one message each, directly after
the calls (Chat Completions, Cohere, Ollama). A provider's subclass converts blocks. The order of messages, merging,
buffered results, the id of each call and result (in the form that `streamkit.ids` determines), and the record of which
content made which message are in these bases. This module depends on no provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, ClassVar, Generic, TypeVar

from streamkit.history import (
    Block,
    Content,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.history.content import (
    CACHE_BREAKPOINT,
    UNPAIRED_BLOCKS,
    UNREADABLE_FILE,
    UNREADABLE_SUMMARY,
    WORDS,
    CacheMark,
)
from streamkit.history.tool_results import ResultPart
from streamkit.ids import DEFAULT_ID_RULE, TargetIds
from streamkit.providers.contract.rendered import RenderOptions, models_of, normalize_endpoint
from streamkit.providers.provider import RenderedMessages, Traits
from streamkit.providers.rendering.media import (
    Media,
    followup_user_blocks,
    lost_of_failure,
    media_parts,
    report_own_fields,
    result_text,
    split_text_and_media,
)
from streamkit.providers.requests.request import MOST_CACHE_MARKS
from streamkit.providers.writing.encoding import text_or_json
from streamkit.values.json_data import copy_with
from streamkit.values.request_changes import Described, InWords, LeftOut, Lost, RequestChange, Translated

__all__ = [
    "AnyTraits",
    "Json",
    "MessageIds",
    "MessageRenderer",
    "RoleRenderer",
    "invalid_arguments",
]


_WITH_WORDS = ("image", "file", "opaque")  # the blocks that may have fields and words for their own provider alone


class MessageIds:
    """The target ids of a conversation: a call and its result have the same id, and no other call has it.

    History may contain one id several times (some models number their calls again in each turn,
    fw-ai/fireconnect#16). Results are then paired with their calls by order.

    Args:
        traits: the target's traits; the ids follow its rule for the requested model.
        options: the id policy, the requested model, and the ids that are in use.
    """

    def __init__(self, traits: Traits, options: RenderOptions) -> None:
        self._traits = traits
        self._options = options
        self._origin = options.ids != "canonical"
        self._target_ids = TargetIds(traits.id_rule_for(options.model), options.used_ids)
        self._seen: dict[str, int] = {}  # the number of calls with an id
        self._open_calls: dict[str, tuple[str, ...]] = {}  # by id in history, target ids of calls without a result
        self._latest: dict[str, str] = {}  # by id in history, the target id of the last call

    def start_round(self) -> None:
        """Discard the calls without a result: later results belong to later calls."""
        self._open_calls = {}

    def call_id(self, block: ToolCallBlock) -> str:
        """Return the target id of a call."""
        occurrence = self._seen[block.id] = self._seen.get(block.id, 0) + 1
        target_id = self._target_ids.call(
            block.id if occurrence == 1 else f"{block.id}|{occurrence}", block.name, origin=self._raw_id(block)
        )
        self._open_calls[block.id] = (*self._open_calls.get(block.id, ()), target_id)
        self._latest[block.id] = target_id
        return target_id

    def result_id(self, block: ToolResponseBlock) -> str:
        """Return the target id of the call that a result belongs to.

        A result whose call is not in the conversation (its server stores it) has the id that the server gave the call.
        """
        open_calls = self._open_calls.pop(block.call_id, ())
        if len(open_calls) > 1:
            self._open_calls[block.call_id] = open_calls[1:]
        if open_calls:
            return open_calls[0]
        latest = self._latest.get(block.call_id)
        return latest or self._target_ids.result(block.call_id, block.name or "", origin=self._raw_id(block))

    def _raw_id(self, block: ToolCallBlock | ToolResponseBlock) -> Any:
        """Return the raw id of a block that goes back to its provider.

        The provider decides, not the model: a conversation keeps its ids when the model changes. Only an id of unusual
        form goes back to its own model and endpoint alone, because gateways put opaque state into ids, which other
        models refuse (BerriAI/litellm#18160).
        """
        metadata = block.metadata
        if not self._origin or not self._traits.is_from_provider(metadata):
            return None
        raw_id = metadata.get("raw_id")
        if isinstance(raw_id, str) and not DEFAULT_ID_RULE.accepts(raw_id):
            options = self._options
            return raw_id if self._traits.accepts_state(metadata, options.model, options.endpoint) else None
        return raw_id


Json = dict[str, Any]
AnyTraits = TypeVar("AnyTraits", bound=Traits)


class MessageRenderer(Generic[AnyTraits]):
    """A rendering of a conversation: the messages so far, the ids in use, and the changes.

    A conversation that grows is rendered as it grows, and its messages at any time are those of a copy (`kept`). So a
    state that the copy may change is in lists, dicts and sets of values that are replaced and not changed; a message
    may be changed until it is closed.
    """

    #: the field of a part that is its cache mark
    mark_field: ClassVar[str] = "cache_control"
    #: a message has its calls in a field of their own, or after all else
    calls_come_last: ClassVar[bool] = False

    def __init__(self, traits: AnyTraits, options: RenderOptions) -> None:
        self.traits = traits
        self.options = options
        self.messages: list[Json] = []
        self.system: list[str] = []
        self.system_marks: dict[int, CacheMark] = {}  # by the position of the system text
        self.changes: list[RequestChange] = []
        self._closing_changes: list[RequestChange] = []  # after those, whenever a message was closed
        self.request_fields: Json = {}
        self._legal_names: set[str] = set()  # of tools
        self.content_number: int = -1  # the number of the content that is being rendered
        self.members: list[list[int]] = []  # for each message, the numbers of the contents in it
        self.closed: int = 0  # how many messages have their final form
        self.marked_messages: list[int] = []  # the numbers of those of them that have cache marks

    @cached_property
    def ids(self) -> MessageIds:
        """The ids of the calls and results."""
        return MessageIds(self.traits, self.options)

    def close_messages(self, stop: int) -> None:
        """Give the messages up to this number their final form: all that is in them has been added."""
        changes, self.changes = self.changes, self._closing_changes
        for number in range(self.closed, stop):
            self.close_message(self.messages[number])
            content = self.messages[number].get("content")
            if isinstance(content, list) and any(self.mark_field in part for part in content):
                self.marked_messages.append(number)
            self.closed = number + 1
        self.changes = changes

    def close_message(self, message: Json) -> None:
        """Give a message its final form; those before it have theirs."""

    def render(self, contents: Sequence[Content], *, is_end: bool = True) -> RenderedMessages:
        """Render the next contents, and return the messages so far; without the end they are not complete."""
        for content in contents:
            self.content_number += 1
            if "author" in content.metadata and not self.accepts_author(content):
                self.report(Lost("the name of a message's author was left out: the target has no field for it"))
            has_call = has_words = False
            for block in content.blocks:
                if block.type in _WITH_WORDS and block.metadata and not self.is_own(block):
                    has_words = has_words or WORDS in block.metadata
                    report_own_fields(block, self.changes)
                if type(block) is TextBlock and block.metadata.get("citations") and not self.is_from_target(block):
                    sentence = "the citations of a text were left out: only the provider that made them accepts them"
                    self.report(LeftOut(sentence))
                if type(block) is ToolResponseBlock and (block.error or block.status not in (None, "completed")):
                    has_flag = self.has_failure_flag(block)
                    is_said = has_flag or self._says_failure(block)
                    has_words = has_words or not is_said
                    if (is_said or block.error) and (lost := lost_of_failure(block, has_flag=has_flag)):
                        self.report(lost)
                elif content.speaker == "ai" and type(block) is ToolCallBlock:
                    has_call = True
                elif has_call and self.calls_come_last and type(block) is TextBlock and block.text:
                    self.report(
                        Translated(
                            "a text that followed a call was put before it: a message of the target ends with calls"
                        )
                    )
            self.add(self._in_words(content) if has_words else content)
        if is_end:
            self.finish()
        system = "\n\n".join(self.system) or None
        count = self.content_number + 1
        changes = self.changes + self._closing_changes
        return RenderedMessages(self.messages, system, self.members, count, self.request_fields, changes)

    def _in_words(self, content: Content) -> Content:
        """Return a content in which text says what other providers' parts, files and failed results are."""
        blocks: list[Block] = []
        for block in content.blocks:
            if isinstance(block, ToolResponseBlock) and not self.has_failure_flag(block):
                if not self._says_failure(block):
                    sentence = "that a result is an error was written into its text: the target has no field for it"
                    self.report(InWords(sentence))
                    block = copy_with(block, error=f"Error: {block.error or text_or_json(block.result)}")
            is_said = block.type in _WITH_WORDS and WORDS in block.metadata and not self.is_own(block)
            if is_said:
                blocks.append(TextBlock(text=block.metadata[WORDS]))
                raw = block.raw if isinstance(block, OpaqueBlock) else {"type": "context"}
                kind = raw.get("type") or next(iter(raw), None) if isinstance(raw, dict) else None
                is_lost = any(sentence in block.metadata[WORDS] for sentence in (UNREADABLE_FILE, UNREADABLE_SUMMARY))
                change, what = (Described, "is lost, and a text says so") if is_lost else (InWords, "became text")
                self.report(change(f"a part ({kind or 'opaque'}) {what}: only {block.metadata.get('provider')} has it"))
            if not (is_said and isinstance(block, OpaqueBlock)):
                blocks.append(block)
        return copy_with(content, blocks=blocks)

    def _says_failure(self, block: ToolResponseBlock) -> bool:
        """Return False if a client's wire had a flag for the failure of a result whose text does not say it."""
        is_flagged = "is_error" in block.metadata and (bool(block.error) or block.result not in (None, ""))
        return not is_flagged or str(block.error).lstrip().casefold().startswith("error")

    def accepts_author(self, content: Content) -> bool:
        """Return True if a message has a field for the author that a client of the same dialect named."""
        return False

    def has_failure_flag(self, block: ToolResponseBlock) -> bool:
        """Return True if the message of this result states, apart from its text, that the call failed."""
        return False

    def add(self, content: Content) -> None:
        """Render the next content of the conversation."""
        raise NotImplementedError

    def finish(self) -> None:
        """Finish the messages after the last content."""

    # ---------------------------------------------------------------- for subclasses

    def report(self, change: RequestChange) -> None:
        """Record a change, unless it was recorded already."""
        if change not in self.changes:
            self.changes.append(change)

    def is_from_target(self, block: Block) -> bool:
        """Return True if the target's provider made this block, with any model and at any endpoint."""
        return self.traits.is_from_provider(block.metadata)

    def is_own(self, block: Block) -> bool:
        """Return True if the target accepts the opaque state of this block: its provider, model and endpoint match."""
        return self.traits.accepts_state(block.metadata, self.options.model, self.options.endpoint)

    def own_state(self, block: Block, name: str) -> Any:
        """Return opaque state in a block's metadata; None if there is none, or if the target does not accept it.

        State that is left out is reported.
        """
        value = block.metadata.get(name)
        if value is None or self.is_own(block):
            return value
        self.report(LeftOut(f"{name!r} of a block of type {block.type!r} was left out: {self.reason_not_own(block)}"))
        return None

    def breakpoint_of(self, block: Block) -> dict[str, Any]:
        """Return the fields of a part with OpenAI's explicit cache mark; empty if the target did not make it."""
        value = block.metadata.get(CACHE_BREAKPOINT)
        return {CACHE_BREAKPOINT: value} if isinstance(value, dict) and self.is_own(block) else {}

    def reason_not_own(self, block: Block) -> str:
        """Return why the target does not accept the opaque state of a block."""
        metadata, options = block.metadata, self.options
        origin = metadata.get("provider")
        if not self.is_from_target(block):
            return f"only {origin}, which made it, accepts it" if isinstance(origin, str) else "its origin is unknown"
        if not self.traits.accepts_state(metadata, options.model):
            return f"only the model {models_of(metadata)[0]}, which made it, accepts it, not {options.model}"
        made_at = normalize_endpoint(str(metadata.get("endpoint", origin)))
        requested = self.traits.name if options.endpoint is None else normalize_endpoint(options.endpoint)
        return f"only the endpoint {made_at}, which made it, accepts it, not {requested}"

    def reason_not_replayed(self, block: ReasoningBlock, target: str) -> str:
        """Return why reasoning is not sent back. Without opaque state its origin may not be that of its messages."""
        if block.signature is None and block.opaque is None:
            return f"it has no signature of {target}'s, which accepts no other reasoning"
        return self.reason_not_own(block)

    def own_raw_id(self, block: ToolCallBlock | ToolResponseBlock) -> str | None:
        """Return the raw id of a call or result of the target's provider; None if it has none."""
        raw_id = block.metadata.get("raw_id") if self.is_from_target(block) else None
        return raw_id if isinstance(raw_id, str) and raw_id else None

    def tool_name(self, name: str) -> str:
        """Return a tool's name as the target accepts it."""
        if name in self._legal_names:
            return name
        legal = self.traits.legal_name(name)
        if legal == name:
            self._legal_names.add(name)
        else:
            sentence = f"the tool name {name!r} was changed to {legal!r}: it has characters that are rejected"
            self.report(Translated(sentence))
        return legal

    def arguments_object(self, block: ToolCallBlock) -> Json:
        """Return a call's arguments as an object.

        Its field ``input`` has the free text of a custom call, and ``INVALID_JSON`` the text of arguments that are no
        object, as Anthropic recommends
        (https://platform.claude.com/docs/en/agents-and-tools/tool-use/fine-grained-tool-streaming).
        """
        if not isinstance(block.parameters, dict):
            self.report(Translated(f"the free text of a call of {block.name!r} was put into an object"))
            return {"input": block.parameters}
        if (invalid := invalid_arguments(block)) is None:
            return block.parameters
        sentence = f"the arguments of a call of {block.name!r} were put into an object as text: they were none"
        self.report(InWords(sentence))
        return {"INVALID_JSON": invalid}

    def append(self, message: Json, contents: Sequence[int] | None = None) -> None:
        """Append a message that contains the content being rendered, or the given contents."""
        self.messages.append(message)
        self.members.append([self.content_number] if contents is None else list(contents))

    def drop_first_marks(self, system: list[Json]) -> bool:
        """Leave out the first cache marks beyond the number that a request may have; return True if there were more.

        *system* are the parts of the system text. The mark is a field of a part, or all of one.
        """
        name = self.mark_field
        lists = [system, *(self.messages[number]["content"] for number in self.marked_messages)]
        surplus = sum(name in part for parts in lists for part in parts) - MOST_CACHE_MARKS
        if surplus <= 0:
            return False
        for number, parts in zip([None, *self.marked_messages], lists, strict=True):
            kept: list[Json] = []
            for part in parts:
                if surplus > 0 and name in part:
                    surplus -= 1
                    part = {field: value for field, value in part.items() if field != name}
                if part:
                    kept.append(part)
            if number is None:
                system[:] = kept
            else:
                self.messages[number] = {**self.messages[number], "content": kept}
        return True


def invalid_arguments(block: ToolCallBlock) -> str | None:
    """Return the text of arguments that are no JSON object, as the model wrote it; None for any others."""
    raw = block.metadata.get("raw_arguments")
    return raw if block.parameters == {} and isinstance(raw, str) and raw.strip() else None


class RoleRenderer(MessageRenderer[AnyTraits]):
    """A renderer for results as messages after the message with their calls, in the order of the calls.

    Results are buffered until another message follows, so that they can be sorted by their calls. A user message after
    them contains the images and files of results that a tool message cannot contain.

    Attributes:
        call_places: the places of the calls of the last assistant message, by target id, for the order of results.
        system_role: the role of a system message.
    """

    calls_come_last: ClassVar[bool] = True

    def __init__(self, traits: AnyTraits, options: RenderOptions) -> None:
        super().__init__(traits, options)
        self.system_role = "system"
        self.call_places: dict[str, int] = {}
        # For each buffered result: the position of its call, the message, its blocks for the user message, its content.
        self._results: list[tuple[int, Json, list[Block], int]] = []
        self._tool_media: list[Media] = []  # images and files next to the results
        self._result_contents: set[int] = set()

    def add(self, content: Content) -> None:
        """Render the next content as messages of its role."""
        if content.speaker not in ("human", "ai", "tool", "system"):
            self.changes.append(Lost(f"left out a message: its speaker {content.speaker!r} is unknown"))
            return
        responses: list[ToolResponseBlock] = []
        others: list[Block] = content.blocks
        if not UNPAIRED_BLOCKS.issuperset(map(type, others)):
            responses = [block for block in others if isinstance(block, ToolResponseBlock)]
            if len(responses) == len(others):
                others = []
            elif responses:
                others = [block for block in others if not isinstance(block, ToolResponseBlock)]
        if content.speaker == "ai":
            self.add_assistant(others)
        for response in responses:
            self.add_result(response)
        if content.speaker == "human":
            self.add_user(others)
        elif content.speaker == "system":
            self.add_system(others)
        elif content.speaker == "tool":
            for block in others:
                if isinstance(block, (ImageBlock, FileBlock)):
                    self._tool_media.append(block)
                    self._result_contents.add(self.content_number)
                else:
                    self.omit(block, "a tool message contains only results")

    def add_assistant(self, blocks: Sequence[Block]) -> None:
        """Render the model's blocks without results."""
        raise NotImplementedError

    def add_user(self, blocks: Sequence[Block]) -> None:
        """Render a user's blocks."""
        raise NotImplementedError

    def add_system(self, blocks: Sequence[Block]) -> None:
        """Append a system message of the texts, joined by newlines; other blocks are left out."""
        for block in blocks:
            if not isinstance(block, TextBlock):
                self.omit(block, "a system message contains only text")
        text = "\n".join(block.text for block in blocks if isinstance(block, TextBlock) and block.text)
        if text:
            self.push({"role": self.system_role, "content": text})

    def add_result(self, block: ToolResponseBlock) -> None:
        """Render the result of a call and buffer it with `buffer_result`."""
        raise NotImplementedError

    def tool_media(self, parts: Sequence[ResultPart]) -> list[ResultPart]:
        """Return images and files of tools that the target's user message can carry; text instead of the others."""
        raise NotImplementedError

    def text_and_media(self, block: ToolResponseBlock) -> tuple[str, list[Media]]:
        """Return the text of a result, and its images and files, for wires whose results are text."""
        parts = media_parts(block)
        return (result_text(block), []) if parts is None else split_text_and_media(self.tool_media(parts))

    def omit(self, block: Block, reason: str) -> None:
        """Report that a block was left out."""
        origin = block.metadata.get("provider")
        suffix = f" of {origin}" if isinstance(origin, str) else ""
        kind = LeftOut if block.type == "reasoning" else Lost
        self.changes.append(kind(f"left out a block of type {block.type!r}{suffix}: {reason}"))

    def push(self, message: Json) -> None:
        """Append a message after the buffered results."""
        self.flush_results()
        self.append(message)

    def buffer_result(self, position: int, message: Json, user_blocks: list[Block]) -> None:
        """Buffer the message of a result, and its blocks in the user message after the results.

        The position is that of its call in the assistant message; a result without a call is the last.
        """
        self._results.append((position, message, user_blocks, self.content_number))
        self._result_contents.add(self.content_number)

    def flush_results(self) -> None:
        """Append the buffered results in the order of their calls, and the user message with their media."""
        self.call_places = {}
        if not self._result_contents:
            return
        results = sorted(self._results, key=itemgetter(0)) if len(self._results) > 1 else self._results
        media = self.tool_media(self._tool_media)
        contents = sorted(self._result_contents)
        self._results, self._tool_media, self._result_contents = [], [], set()
        for _, message, _, content in results:
            self.append(message, [content])
        shown = [blocks for _, _, blocks, _ in results if blocks]
        if (shown or media) and (user_blocks := followup_user_blocks(shown, media, self.changes)):
            number, self.content_number = self.content_number, contents[-1]
            self.add_user(user_blocks)
            self.content_number = number

    finish = flush_results  # of a conversation: the last results
