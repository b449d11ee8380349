"""Gemini's ``functionCall`` parts -> what they say of calls.

Wire      https://ai.google.dev/gemini-api/docs/function-calling
          https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling

Calls come whole, one a part, often several of one name and without ids. On Vertex their arguments may be streamed: an
opening part with the name and ``willContinue``, parts with fragments, and at the end an empty ``functionCall``, which
may be missing. Until then the argument text stays open, so that a call that was cut never looks whole.
"""

from __future__ import annotations

from typing import Any

from streamkit.events import NormalizedToolChunk
from streamkit.providers.decoding import as_text, compact_json
from streamkit.providers.gemini.partial_args import PartialArgsAssembler
from streamkit.providers.gemini.schema import SIGNATURE, FunctionCall, signature_of
from streamkit.providers.provider import ChoiceSink, Sink

__all__ = ["FunctionCallReader"]


class _OpenCall:
    """A call whose arguments are being streamed."""

    __slots__ = ("arguments", "key", "raw_id", "signed", "snapshot")

    def __init__(self, key: int, raw_id: str | None, *, signed: bool) -> None:
        self.key = key
        self.raw_id = raw_id
        self.signed = signed
        self.arguments = PartialArgsAssembler()
        self.snapshot: Any = None  # arguments that came whole in the midst of it


class FunctionCallReader:
    """The calls of one candidate, as far as the wire makes the reader remember them."""

    __slots__ = ("_by_id", "_choice", "_keys", "_open", "_sink", "_tool")

    def __init__(self, sink: Sink, choice: ChoiceSink) -> None:
        self._sink = sink
        self._choice = choice
        self._tool = choice.tool
        self._keys = 0
        self._open: dict[int, _OpenCall] = {}  # by key, in the order in which they began
        self._by_id: dict[str, _OpenCall] = {}  # those of them that have an id

    def new_key(self) -> int:
        """A key that no other call or block of the candidate has."""
        self._keys += 1
        return self._keys

    def read(self, call: FunctionCall, signature: Any) -> None:
        """One part with a ``functionCall``."""
        if self._open and call.name is None and call.id is None and call.args is None and signature is None:
            # Most parts by far where arguments are streamed: the call that is open goes on.
            held = self._last()
            if call.partialArgs:
                piece = held.arguments.add(call.partialArgs)
                if piece:
                    self._tool(NormalizedToolChunk("delta", None, None, None, piece, held.key))
            if call.willContinue is not True:
                self._end(held)
            return
        raw_id, name = as_text(call.id), as_text(call.name)
        signature = signature_of(signature)
        found = self._held_by(raw_id, name)
        if found is not None:
            self._continue_call(found, call, signature)
        elif name is not None or call.args is not None:
            self._begin(call, raw_id, name, signature)
        elif call.partialArgs or raw_id or signature:
            self._sink.warn("orphan_delta", "a fragment of a call belongs to none that is open")
        # else the end of a call that has ended already

    def end_all(self) -> None:
        """The answer is over, in order."""
        for held in list(self._open.values()):
            self._end(held)

    def _last(self) -> _OpenCall:
        return next(reversed(self._open.values()))

    def _held_by(self, raw_id: str | None, name: str | None) -> _OpenCall | None:
        """The streamed call that a part goes on with: that of its id, else the last, unless the part names one."""
        if raw_id is not None and raw_id in self._by_id:
            return self._by_id[raw_id]
        return self._last() if self._open and name is None else None

    def _begin(self, call: FunctionCall, raw_id: str | None, name: str | None, signature: str | None) -> None:
        if raw_id is None or len(self._open) > len(self._by_id):  # without ids calls come one behind the other
            for held in list(self._open.values()):
                if raw_id is None or held.raw_id is None:
                    self._end(held)
        key = self.new_key()
        opened: _OpenCall | None = None
        if call.willContinue is True or call.partialArgs:
            opened = _OpenCall(key, raw_id, signed=signature is not None)
            opened.snapshot = call.args or None
            self._open[key] = opened
            if raw_id is not None:
                self._by_id[raw_id] = opened
            text = PartialArgsAssembler.OPENING + opened.arguments.add(call.partialArgs or ())
        else:
            text = compact_json({} if call.args is None else call.args)
        metadata = {SIGNATURE: signature} if signature else None
        self._tool(NormalizedToolChunk("start", raw_id, name, text, None, key, None, "function", None, metadata))
        if opened is None:
            self._choice.end_block(key)
        elif call.willContinue is not True:
            self._end(opened)

    def _continue_call(self, held: _OpenCall, call: FunctionCall, signature: str | None) -> None:
        if signature is not None:
            if held.signed:
                self._sink.warn("second_signature", "a call was signed twice; the first signature stands")
            else:
                held.signed = True
                self._choice.add_metadata({SIGNATURE: signature}, held.key)
        if call.partialArgs:
            piece = held.arguments.add(call.partialArgs)
            if piece:
                self._tool(NormalizedToolChunk("delta", None, None, None, piece, held.key))
        goes_on = call.willContinue is True
        if call.args is not None and (call.args or not goes_on):
            held.snapshot = call.args
        if not goes_on:
            self._end(held)

    def _end(self, held: _OpenCall) -> None:
        """The wire says that a streamed call is over."""
        del self._open[held.key]
        if held.raw_id is not None:
            del self._by_id[held.raw_id]
        rest, whole = held.arguments.finish()
        if held.snapshot is not None:
            whole = compact_json(held.snapshot)
        elif held.arguments.problem is not None:
            # Not sealed: arguments that are not known must not look like whole ones.
            self._sink.warn("arguments_unknown", held.arguments.problem)
            return
        if whole is not None:
            self._choice.replace_arguments(held.key, whole)
        else:
            self._tool(NormalizedToolChunk("delta", None, None, None, rest, held.key))
        self._choice.end_block(held.key)
