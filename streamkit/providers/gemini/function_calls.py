"""Reader of Gemini's ``functionCall`` parts.

Wire      https://ai.google.dev/gemini-api/docs/function-calling
          https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling

A call is usually complete in one part. Several calls often have one name and no ids. On Vertex the arguments may be
streamed: a first part with the name and ``willContinue``, parts with fragments, and at the end an empty
``functionCall``, which may be missing. Until then the argument text stays open, so that a truncated call is never taken
for a complete one.

This module does not depend on text, usage or the other parts of a candidate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamkit.events import NormalizedToolChunk
from streamkit.json_text import json_size
from streamkit.providers.decoding.decoding import as_text, compact_json
from streamkit.providers.gemini.partial_args import PartialArgsAssembler
from streamkit.providers.gemini.schema import SIGNATURE, FunctionCall, signature_of
from streamkit.providers.provider import ChoiceSink, Sink

__all__ = ["FunctionCallReader"]


class _OpenCall:
    """A call with streamed arguments that has not ended."""

    __slots__ = ("arguments", "has_signature", "key", "raw_id", "snapshot")

    def __init__(self, key: int, raw_id: str | None, keep: Callable[[int], bool], *, has_signature: bool) -> None:
        self.key = key
        self.raw_id = raw_id
        self.has_signature = has_signature
        self.arguments = PartialArgsAssembler(keep)
        self.snapshot: Any = None  # complete arguments that arrived between fragments


class FunctionCallReader:
    """The calls of one candidate, as far as later parts refer to them.

    Attributes:
        last_key: the key of the last call or block that began.
    """

    __slots__ = ("_by_id", "_choice", "_open", "_sink", "_tool", "last_key")

    def __init__(self, sink: Sink, choice: ChoiceSink) -> None:
        self._sink = sink
        self._choice = choice
        self._tool = choice.tool
        self.last_key = 0
        self._open: dict[int, _OpenCall] = {}  # by key, in the order in which they began
        self._by_id: dict[str, _OpenCall] = {}  # the open calls that have an id

    def new_key(self) -> int:
        """Return a key that no other call or block of the candidate has."""
        self.last_key += 1
        return self.last_key

    def read(self, call: FunctionCall, signature: Any) -> None:
        """Read one part with a ``functionCall``.

        Args:
            call: the ``functionCall`` of the part.
            signature: the ``thoughtSignature`` of the part.
        """
        if self._open and call.name is None and call.id is None and call.args is None and signature is None:
            # Most parts of streamed arguments: a fragment of the last open call.
            last = self._last_open()
            if call.partialArgs:
                delta = last.arguments.add(call.partialArgs)
                if delta:
                    self._tool(NormalizedToolChunk("delta", None, None, None, delta, last.key))
            if call.willContinue is not True:
                self._end(last)
            return
        raw_id, name = as_text(call.id), as_text(call.name)
        signature = signature_of(signature)
        open_call = self._find_open(raw_id, name)
        if open_call is not None:
            self._continue_call(open_call, call, signature)
        elif name is not None or call.args is not None:
            self._start(call, raw_id, name, signature)
        elif call.partialArgs or raw_id or signature:
            self._sink.warn("orphan_delta", "a fragment of a call belongs to no open call")
        # Otherwise it is the end of a call that has ended already.

    def end_all(self) -> None:
        """End all open calls, because the candidate finished normally."""
        for open_call in list(self._open.values()):
            self._end(open_call)

    def _last_open(self) -> _OpenCall:
        return next(reversed(self._open.values()))

    def _find_open(self, raw_id: str | None, name: str | None) -> _OpenCall | None:
        """Return the open call that a part continues: the one with its id, else the last if the part has no name."""
        if raw_id is not None and raw_id in self._by_id:
            return self._by_id[raw_id]
        return self._last_open() if self._open and name is None else None

    def _start(self, call: FunctionCall, raw_id: str | None, name: str | None, signature: str | None) -> None:
        if raw_id is None or len(self._open) > len(self._by_id):  # calls without ids arrive one after the other
            for open_call in list(self._open.values()):
                if raw_id is None or open_call.raw_id is None:
                    self._end(open_call)
        key = self.new_key()
        started: _OpenCall | None = None
        if call.willContinue is True or call.partialArgs:
            started = _OpenCall(key, raw_id, self._sink.keep, has_signature=signature is not None)
            started.snapshot = call.args or None
            self._sink.keep(json_size(started.snapshot))
            self._open[key] = started
            if raw_id is not None:
                self._by_id[raw_id] = started
            text = PartialArgsAssembler.OPENING + started.arguments.add(call.partialArgs or ())
        else:
            text = compact_json({} if call.args is None else call.args)
        metadata = {SIGNATURE: signature} if signature else None
        self._tool(NormalizedToolChunk("start", raw_id, name, text, None, key, None, "function", None, metadata))
        if started is None:
            self._choice.end_block(key)
        elif call.willContinue is not True:
            self._end(started)

    def _continue_call(self, open_call: _OpenCall, call: FunctionCall, signature: str | None) -> None:
        if signature is not None:
            if open_call.has_signature:
                self._sink.warn("second_signature", "a call was signed twice; the first signature is used")
            else:
                open_call.has_signature = True
                self._choice.add_metadata({SIGNATURE: signature}, open_call.key)
        if call.partialArgs:
            delta = open_call.arguments.add(call.partialArgs)
            if delta:
                self._tool(NormalizedToolChunk("delta", None, None, None, delta, open_call.key))
        continues = call.willContinue is True
        if call.args is not None and (call.args or not continues):
            self._sink.keep(json_size(call.args) - json_size(open_call.snapshot))
            open_call.snapshot = call.args
        if not continues:
            self._end(open_call)

    def _end(self, open_call: _OpenCall) -> None:
        """End a call with streamed arguments."""
        del self._open[open_call.key]
        if open_call.raw_id is not None:
            del self._by_id[open_call.raw_id]
        rest, replacement = open_call.arguments.close()
        if open_call.snapshot is not None:
            replacement = compact_json(open_call.snapshot)
        elif open_call.arguments.problem is not None:
            # The block is not ended: arguments that are not known must not be taken for complete ones.
            self._sink.warn("arguments_unknown", open_call.arguments.problem)
            return
        if replacement is not None:
            self._choice.replace_arguments(open_call.key, replacement)
        else:
            self._tool(NormalizedToolChunk("delta", None, None, None, rest, open_call.key))
        self._choice.end_block(open_call.key)
