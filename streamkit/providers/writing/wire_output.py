"""The base of every provider's writer: the chunks of a wire as frames, and the methods for the shapes of the wire.

``writer.Writer`` calls these methods for the events of a turn, and a provider's ``writer.py`` implements them. This
module must not depend on any provider, nor on events of execution, history, a clock or randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias

from streamkit.calls import FinishReason, StreamError, ToolCall, Usage
from streamkit.events import BlockEnded, Citation, File, Finished, LogProbabilities, ReasoningKind
from streamkit.providers.contract.error_rules import ErrorRules
from streamkit.providers.contract.traits import Traits
from streamkit.providers.writing.call_text import CallText
from streamkit.providers.writing.encoding import encode_json_text

__all__ = [
    "LONGEST_REPEATED",
    "ErrorBody",
    "Json",
    "OmittedKind",
    "ServerToolCall",
    "WireOutput",
    "WirePlaces",
    "WriterOptions",
    "find_places",
    "paths",
]

Json: TypeAlias = dict[str, Any]

#: Characters of what a wire repeats in every chunk, such as the model's name: a long one would multiply the response.
LONGEST_REPEATED = 2048

#: What a stream may have that a wire cannot express.
OmittedKind = Literal[
    "reasoning",
    "refusal",
    "citation",
    "compaction",
    "server_tool",
    "file",
    "block_state",
    "call_state",
    "incomplete_call",
    "changed_call",
    "other_choice",
    "log_probabilities",
    "unknown",
]

_MARK: Final = "\ue000streamkit\ue001"  # of the private use area
_ENCODED_MARK: Final = encode_json_text(_MARK)
_MOST_TEMPLATES: Final = 64  # more than the calls that are open at once


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """What a writer is created with: arguments of ``providers.writer``."""

    response_id: str | None = None
    model: str | None = None
    stream: bool = True
    usage_chunk: bool = True


#: The way to values in a chunk: at each step the names of members, or ``*`` for each item of a list.
Path: TypeAlias = tuple[tuple[str, ...], ...]


def paths(*texts: str) -> tuple[Path, ...]:
    """Return paths that are written like ``choices.*.delta|message.tool_calls``."""
    return tuple(tuple(tuple(step.split("|")) for step in text.split(".")) for text in texts)


def find_places(value: Any, paths: Sequence[Path]) -> Iterator[tuple[Any, Any]]:
    """Yield the places of the paths that exist, each as its object or list and the key."""
    for path in paths:
        yield from _follow(value, path)


def _follow(value: Any, path: Path) -> Iterator[tuple[Any, Any]]:
    names = path[0]
    if isinstance(value, list):
        keys: Any = range(len(value)) if names == ("*",) else ()
    else:
        keys = [name for name in names if name in value] if isinstance(value, dict) else ()
    for key in keys:
        if len(path) == 1:
            yield value, key
        else:
            yield from _follow(value[key], path[1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class WirePlaces:
    """Where a wire has what a gateway writes itself in frames that it passes on, and in whole bodies.

    Attributes:
        model: the name of the model.
        calls: the objects of calls, below each item of ``choices`` if the wire has that list.
        finish: finish reasons.
        state: texts of opaque state.
        items: items of the response, with an id each, to which later requests refer.
        item_id: the field with such an id in events about an item.
        item_index: the field with an item's index in these events.
        response_id: the id of the response, on wires with ``items``.
        finish_reasons: the neutral finish reason by its name on the wire.
        finish_names: the name of each neutral finish reason.
        choices: the field with the list of choices.
        call_lists: the lists of calls, for which some servers send one call.
        call_types: the types of calls, None if these objects are calls alone.
        call_id: the field of a call's id.
        call_index: the field of a call's index; None if the wire has none.
        state_types: the types of objects whose text is state; None for all.
        has_usage_chunk: token counts may come in a chunk without choices.
        terminator: the name and the payload of the frame that ends a stream, where the traits have no ``end_marker``.
    """

    calls: tuple[Path, ...]
    finish: tuple[Path, ...]
    finish_reasons: Mapping[str, FinishReason]
    finish_names: Mapping[FinishReason, str]
    model: tuple[Path, ...] = ()
    state: tuple[Path, ...] = ()
    items: tuple[Path, ...] = ()
    item_id: str = ""
    item_index: str = ""
    response_id: tuple[Path, ...] = ()
    choices: str = ""
    call_lists: tuple[Path, ...] = ()
    call_types: frozenset[str | None] | None = None
    call_id: str = "id"
    call_index: str | None = None
    state_types: frozenset[str] | None = None
    has_usage_chunk: bool = False
    terminator: tuple[bytes, bytes] = (b"", b"")


@dataclass(slots=True)
class ServerToolCall:
    """A server tool as far as its events came."""

    id: str | None
    name: str
    fields: Any = None  #: further fields of the block of the provider that ran it
    parts: list[str] = field(default_factory=list)
    arguments: Any = None
    is_written: bool = False
    position: int = -1  #: the place of its item, on wires that number them


class ErrorBody(Protocol):
    """Returns the body of a response that failed."""

    def __call__(self, status: int, message: str, code: str | None, /) -> Json:
        """Return the body for a status, a message and a code."""


class WireOutput:
    """A writer of chunks: what the writers of all wires share, without the events."""

    error_rules: ClassVar[ErrorRules] = ErrorRules()  #: the rules of the wire's errors
    failed_body: ClassVar[ErrorBody]  #: the ``error_body`` of the provider's package
    #: Whether a finish reason of the wire means that the response failed; elsewhere a body that failed is an error.
    has_error_finish: ClassVar[bool] = True
    places: ClassVar[WirePlaces | None] = None  #: for frames that are passed on; None where none are

    def __init__(self, traits: Traits, options: WriterOptions) -> None:
        self.traits = traits
        self.response_id: str | None = options.response_id  # the id of the response; None if it is not known
        self.model: str | None = options.model  # the model's name; None if it is not known
        # a sentence for each kind of thing that was left out or could not be expressed, by its kind
        self.omitted: dict[OmittedKind, str] = {}
        self.usage: Usage | None = None  # the last report of tokens
        self.finish: Finished | None = None  # the finish of the choice
        self.finish_reason: FinishReason = "error"  # its neutral reason; ``error`` without one
        self.finish_is_error = True  # whether that reason is an error (``finishes``)
        self.error: StreamError | None = None  # the error that ends the stream
        # the items of the response so far, where the wire has items to which later requests may refer
        self.items: list[Json] = []
        self.has_own_errors = False  # the error is of a provider of this wire: clients read its other fields
        # the wire's own facts about the response, as far as the events have them; empty for another wire
        self.metadata: Mapping[str, Any] = {}
        self.event_count: int = 0  # the events of the stream so far, on wires that number them
        self.block = 0  # the number of the block that the event is of which is being written
        self.open_blocks: set[int] = set()  # the numbers of the blocks that have started and will get an end
        self.is_own_citation = False  # the last citation with data was written in the provider's own form
        self._frames: list[bytes] = []
        self._templates: dict[Hashable, list[bytes]] = {}
        self._chunks: list[Json] | None = None if options.stream else []
        self._own_state: Mapping[str, Any] | None = None

    # ------------------------------------------------------------ frames

    def send(self, chunk: Json) -> None:
        """Add a chunk to the stream."""
        if self._chunks is None:
            if frame := self.encode(chunk):
                self._frames.append(frame)
        else:
            self._chunks.append(chunk)

    def send_delta(self, key: Hashable, make: Callable[..., Json], text: str, *arguments: Any) -> None:
        """Add the chunk ``make(text, *arguments)``, which has the text once, as a value.

        It is encoded with the bytes of an earlier chunk of that key, which determines the chunk but for its text.
        """
        if self._chunks is not None:
            self._chunks.append(make(text, *arguments))
            return
        template = self._templates.get(key)
        if template is None:  # the chunk before and after its text; of another length if an id is like the mark
            if len(self._templates) > _MOST_TEMPLATES:
                self._templates.clear()
            template = self._templates[key] = self.encode(make(_MARK, *arguments)).split(_ENCODED_MARK)
        if len(template) == 2:
            self._frames.append(template[0] + encode_json_text(text) + template[1])
        else:
            self.send(make(text, *arguments))

    def send_bytes(self, frame: bytes) -> None:
        """Add a frame that is no chunk, such as a terminator; a body has none."""
        if self._chunks is None:
            self._frames.append(frame)

    def _take(self) -> list[bytes]:
        frames, self._frames = self._frames, []
        return frames

    def omit(self, kind: OmittedKind, sentence: str) -> None:
        """Record that something was left out; of each kind the first sentence is kept."""
        self.omitted.setdefault(kind, sentence)

    def check_call(self, call: CallText, final: ToolCall) -> None:
        """Report a call that changed after it was sent; end the stream with an error if the client has another call.

        The client has the arguments, and nothing in a stream of deltas takes them back. An error is the only way to
        prevent that it runs the other call.
        """
        verdict = call.compare(final)
        if verdict == "same":
            return
        message = f"the arguments of the call {final.name!r} changed after they were sent"
        self.omit("changed_call", message)
        if verdict == "contradictory" and self.error is None:
            self.error = StreamError("provider_error", message)

    def omit_call(self, call: ToolCall) -> None:
        """Record that a call is left out because the wire has complete calls alone."""
        self.omit("incomplete_call", f"the call {call.name!r} was left out: its state is {call.state!r}")

    @property
    def has_failed(self) -> bool:
        """Whether the response ends with an error, once all of its events are known."""
        return self.error is not None or self.finish_is_error

    def finish_name(self, table: Mapping[str, FinishReason], names: Mapping[FinishReason, str]) -> str:
        """Return the wire's name of the finish: the provider's own value if the wire has it in that meaning."""
        reason, raw = self.finish_reason, None if self.finish is None else self.finish.raw
        return raw if isinstance(raw, str) and table.get(raw) == reason else names[reason]

    def own_error(self, body: Json, error: StreamError) -> Json:
        """Return the body of an error with the other fields of the provider's own one, if it is of the same wire.

        Clients read them: gemini-cli the ``details`` with the quota, OpenAI's SDK ``param`` and ``type``.
        """
        own, written = error.raw, body.get("error")
        if not self.has_own_errors or error.kind != "provider_error" or not isinstance(own, dict):
            return body
        own = own["error"] if isinstance(own.get("error"), dict) else own
        if not isinstance(written, dict):
            return body
        # An integer is the HTTP status, which may have another value for the client.
        kept = {name for name, value in written.items() if name == "message" or isinstance(value, int)}
        return {**body, "error": {**written, **{name: value for name, value in own.items() if name not in kept}}}

    def error_fields(self, error: StreamError) -> tuple[int, str, str | None]:
        """Return an error as the arguments of ``error_body``: status, message, and the wire's name of the code."""
        rules = self.error_rules
        name = None if error.code is None else rules.names().get(error.code)
        return rules.written_status(error), rules.written_message(error), name

    # ------------------------------------------------------------ what a wire's writer implements

    def begin(self) -> None:
        """Write the beginning of the response."""

    def end(self) -> None:
        """Write the end of the response, by ``usage``, ``finish`` and ``error``."""
        raise NotImplementedError

    def encode(self, chunk: Json) -> bytes:
        """Return a chunk as a frame."""
        raise NotImplementedError

    def body(self, chunks: list[Json]) -> Json:
        """Return the chunks of a stream as the body of a response that is not streamed."""
        raise NotImplementedError

    def text(self, text: str) -> None:
        """Write a text delta."""
        raise NotImplementedError

    def reasoning(self, text: str, kind: ReasoningKind) -> None:
        """Write a delta of reasoning."""
        self.omit("reasoning", "reasoning was left out: the wire has no field for it")

    def refusal(self, text: str) -> None:
        """Write a delta of a refusal, as text where the wire has no field for it."""
        self.omit("refusal", "a refusal was written as text: the wire has no field for it")
        self.text(text)

    def end_block(self, event: BlockEnded) -> None:
        """Write the end of a block and its opaque state."""
        if event.signature or event.metadata:
            self.omit("block_state", "opaque state of a block was left out: the wire has no field for it")

    def start_call(self, call: CallText) -> None:
        """Write the start of a call."""
        raise NotImplementedError

    def add_arguments(self, call: CallText, delta: str) -> None:
        """Write a delta of a call's arguments."""
        raise NotImplementedError

    def restate_arguments(self, call: CallText, text: str) -> None:
        """Write that the arguments of a call are another text."""
        raise NotImplementedError

    def call_ended(self, call: CallText) -> None:
        """Handle the reported end of a call; its final state may come later."""

    def end_call(self, call: CallText, final: ToolCall) -> None:
        """Write the end of a call in its final state.

        A call without an end (``is_cut``) gets one when the response ends without an error (``end_cut_calls``): clients
        run a custom call, and repeat the request of any other call, once it has an end on the wire.
        """
        raise NotImplementedError

    def end_cut_calls(self) -> bool:
        """Write the end of the calls that were cut, unless the response failed; return whether more may be written."""
        return True

    def server_tool_call(self, tool: ServerToolCall) -> None:
        """Write a server tool with its arguments."""
        self.omit("server_tool", "server tools were left out: the wire has no field for them")

    def server_tool_result(self, tool: ServerToolCall, result: Any) -> None:
        """Write the result of a server tool."""

    def citation(self, event: Citation) -> bool:
        """Write a citation; return True if that was its data, in the provider's own form, with all of its sources."""
        self.omit("citation", "citations were left out: the wire has no field for them")
        return False

    def compaction(self, raw: Any) -> bool:
        """Write the summary of a compaction, if it has this wire's form; return whether it has."""
        return False

    def file(self, event: File) -> None:
        """Write a file."""
        self.omit("file", "files were left out: the wire has no field for them")

    def log_probabilities(self, event: LogProbabilities) -> None:
        """Write the log probabilities of a text: some wires report them before it, others after it."""
        self.omit("log_probabilities", "log probabilities were left out: the wire has no field for them")

    def unknown(self, raw: Any) -> None:
        """Write input without an event of its own, if it is a block in the wire's own form."""
        self.omit("unknown", "input without an event of its own was left out")

    def provider_block(self, raw: Any, *, is_server_tool: bool) -> None:
        """Write a block in the wire's own form."""
        self.omit("unknown", "a block of the provider's own was left out: the wire has no field for it")
