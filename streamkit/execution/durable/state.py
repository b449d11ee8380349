"""``RunState``: a run of the loop that was left, as data to store; and the reasons for which a run ends. Pure.

The state contains the conversation, the calls of the paused round and the results so far: all that another process
needs to continue. It contains no tools, no ``deps`` and no keys; these are passed again.

A run that paused returns its state itself; that of a run that was stopped anywhere (a crash, a deployment) is made from
its entries (``from_entries``).

A state comes back from outside of the program, so it is checked as a whole: the calls are those of the assistant's
content and of no earlier one, and each has a result, awaits approval or its result, or waits for a call that does. A
person who can write to the storage can still write another state that is consistent; ``dump(key)`` and ``load(data,
key)`` exclude that. This module must not depend on storage, nor on a clock: ``load`` gets the time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, JsonValue, PrivateAttr, model_validator

from streamkit.calls import ToolCall, ToolResult
from streamkit.errors import ToolFailed, UsageError
from streamkit.execution.durable.entries import MAX_DEPTH, NestedEntry, RunEntry, StoredCall, StoredResult, StoredUsage
from streamkit.execution.one_call.prepare import describe_for_model
from streamkit.execution.round.context import RoundContext
from streamkit.execution.round.policies import Outcome
from streamkit.execution.round.round import Round
from streamkit.execution.round.thread_update import ThreadLayout, to_sendable_result
from streamkit.history import Content, ToolCallBlock
from streamkit.history.tool_results import exception_text
from streamkit.json_text import nests_deeper, replace_lone_surrogates
from streamkit.tools import Approval
from streamkit.values.signatures import is_signed, sign

__all__ = ["AnsweredState", "RunState"]

_MAX_ROUND = 1_000_000  # a run has few rounds; the limit only excludes what no run has written


class RunState(BaseModel):
    """A paused run, stored by ``model_dump_json`` and ``model_validate_json`` and resumed by ``run_loop(resume=)``.

    It is a value: each time it is resumed, the remaining calls run. Resumed with the ``checkpoint`` of a store it has
    its place there (``position``), so that a second run from it ends with the store's error before it runs anything;
    without one your storage must ensure that it is resumed once. A call has the same ``ToolContext.id`` at every
    attempt, to be used as idempotency key.

    Attributes:
        version: of this format.
        run_key: the stable name of the run.
        provider: the name of the provider.
        model: the requested model, if the run has one; with a fallback it is the fallback's.
        endpoint: the requested server, in the same way.
        round: the number of the paused round.
        tool_choice: of the paused round's request.
        history: the conversation before the paused round (of a run with a ``thread``: what the run added).
        contents: what the run added before the paused round.
        thread: the provider's own messages, if the run was started with those; else None.
        assistant: the assistant's content of the current round, with its calls; None if its response was not read.
        calls: these calls, in order.
        results: those that exist.
        pending: the ids of the calls that await approval, in call order.
        awaiting_results: the ids of the calls whose results come from the client, in call order.
        usage: the tokens of all requests so far, one report each.
        cost: what they cost, by ``Budget.price``.
        failures: how often equal calls have failed, for the circuit breaker.
        is_paused: the run ended ``awaiting_approval`` or ``awaiting_results``. False: it was stopped anywhere, so that
            calls without a result have to run.
        pauses: how often the provider had paused the response of this round.
        outcome: what the response means for the run, once its calls have results.
        position: how many entries of the run were stored: the next one has this position.
        started: the ids of calls of ``Tool(once=True)`` that have started; without a result they do not run again.
        attempts: how often further calls may have run, by the call's id.
        messages: the contents that were sent to the run and that no request contained.
        nested: the entries of runs inside the calls without a result.
        nested_calls: how many calls all runs inside of calls have made.
        metadata: what the application needs to continue: the id of a message, the context of a trace. Any JSON, which
            ``dump(key)`` signs with the state. It is ``run.metadata`` of the run that paused, and of a resumed one; of
            a run that was stopped anywhere, that of its last request.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", defer_build=True)

    version: Literal[1] = 1
    run_key: Annotated[str, Field(min_length=1)]
    provider: Annotated[str, Field(min_length=1)]
    model: str | None = None
    endpoint: str | None = None
    round: Annotated[int, Field(ge=0, le=_MAX_ROUND, strict=True)]
    tool_choice: str | None = None
    history: list[Content]
    contents: list[Content]
    thread: list[dict[str, Any]] | None = None
    assistant: Content | None = None
    calls: list[StoredCall] = Field(default_factory=list)
    results: list[StoredResult] = Field(default_factory=list)
    pending: list[str] = Field(default_factory=list)
    awaiting_results: list[str] = Field(default_factory=list)
    usage: list[StoredUsage] = Field(default_factory=list)
    cost: float = 0.0
    failures: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    is_paused: bool = True
    pauses: Annotated[int, Field(ge=0, le=_MAX_ROUND, strict=True)] = 0
    outcome: Outcome = None
    position: Annotated[int, Field(ge=0, strict=True)] = 0
    started: list[str] = Field(default_factory=list)
    attempts: dict[str, Annotated[int, Field(ge=1, strict=True)]] = Field(default_factory=dict)
    messages: list[Content] = Field(default_factory=list)
    nested: list[NestedEntry] = Field(default_factory=list)
    nested_calls: Annotated[int, Field(ge=0, strict=True)] = 0
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    # Not stored: a state may come back from a client, who must not approve calls with it.
    _approvals: dict[str, Approval] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _check_depth(cls, data: Any) -> Any:
        # What is nested deeper cannot be rendered or stored again; the recursion of that must not be the first to fail.
        if nests_deeper(data, MAX_DEPTH):
            raise ValueError(f"the state is nested deeper than {MAX_DEPTH} levels, or contains itself")
        return data

    @model_validator(mode="after")
    def _check_calls(self) -> RunState:
        if problem := _find_problem(self):
            raise ValueError(replace_lone_surrogates(problem))  # pydantic cannot raise one with such an id
        return self

    def dump(self, key: bytes | str | None = None, *, expires: float | None = None) -> str:
        """Return the state as JSON, signed if there is a key.

        Args:
            key: a secret of the program; the same is passed to ``load``. Anybody else cannot change the state then, but
                can read it.
            expires: with a key, the time from which ``load`` refuses the state, such as ``time.time() + 86400``.

        Raises:
            UsageError: there is a time and no key, or one of them is none.
        """
        data = self.model_dump(mode="json")
        if key is None:
            if expires is not None:
                raise UsageError("a state expires only if it is signed: pass dump(key, expires=...)")
            return json.dumps(data)
        signed: dict[str, Any] = {"state": data}
        if expires is not None:
            signed["expires"] = _check_time("expires", expires)
        return json.dumps({**signed, "hmac_sha256": sign(_signed_bytes(signed), _check_key(key)).hex()})

    @classmethod
    def load(cls, data: str | bytes, key: bytes | str | None = None, *, now: float | None = None) -> RunState:
        """Return the state that ``dump`` has written.

        Args:
            data: the JSON, possibly written again by a database.
            key: the key of ``dump``.
            now: the time, of a state that expires: ``time.time()``, if ``dump`` got such a time.

        Raises:
            UsageError: there is a key and the state is not signed with it, or has been changed since; or there is a
                signature and no key; or it has expired, or would and there is no ``now``.
            pydantic.ValidationError: the state is damaged.
        """
        try:
            stored = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeError, TypeError, RecursionError):
            raise UsageError("the state is not JSON that RunState.dump() has written") from None
        has_signature = isinstance(stored, dict) and "hmac_sha256" in stored
        if key is None:
            if has_signature:
                raise UsageError("the state is signed: pass the key of RunState.dump(key) as load(data, key)")
            return cls.model_validate(stored)
        if not has_signature:
            raise UsageError("the state is not signed: it was not written by RunState.dump(key)")
        try:
            signature = bytes.fromhex(stored.pop("hmac_sha256"))
        except (TypeError, ValueError):
            signature = b""
        is_right = is_signed(_signed_bytes(stored), signature, [_check_key(key)])
        if not is_right or not stored.keys() <= {"state", "expires"}:
            raise UsageError("the state was changed after it was signed, or was signed with another key: do not use it")
        expires = stored.get("expires")
        if expires is not None:
            if now is None:
                raise UsageError("the state expires: pass the time as load(data, key, now=time.time())")
            if _check_time("now", now) >= expires:
                raise UsageError(f"the state has expired at {expires!r}: the run must be started anew")
        return cls.model_validate(stored.get("state"))

    @classmethod
    def from_entries(cls, entries: Iterable[RunEntry]) -> RunState:
        """Return the state of a run after the entries that its ``checkpoint`` got, wherever it was stopped.

        Resumed, it requests no response again that was recorded and runs no call again whose result was; a call without
        one runs, with the idempotency key that it had. The state of a run that had ended ends it again at once.

        Args:
            entries: all entries of one run, in the order in which they were recorded. The first result of a call
                counts.

        Raises:
            UsageError: there are none, they are of several runs, or some are missing.
            pydantic.ValidationError: they contradict each other.
        """
        from streamkit.execution.durable.replay import Replay  # only a run that is continued needs it

        replay = Replay.of(entries)
        state = cls(**replay.fields)
        state._approvals = dict(replay.approvals)
        return state

    def answer(
        self, *, approvals: Mapping[str, Approval | bool] | None = None, results: Mapping[str, Any] | None = None
    ) -> AnsweredState:
        """Return the state with decisions on its calls, and with their results: what ``run_loop(resume=)`` takes.

        Args:
            approvals: for each call in ``pending``, by its id: True, False, or an ``Approval``. Without a decision for
                every call the run ends ``awaiting_approval`` again, when the approved ones have run.
            results: for each call in ``awaiting_results``, by its id: the value, as a tool would return it, or the
                exception that it would raise, such as a ``ToolFailed`` with a sentence for the model. Without a value
                for every call the run ends ``awaiting_results`` again.

        Raises:
            UsageError: one is for a call that does not await it, or that has a decision already; a decision is neither
                a bool nor an ``Approval``; or a value cannot be written as JSON.
        """
        if twice := [call_id for call_id in approvals or {} if call_id in (results or {})]:
            raise UsageError(f"the call {twice[0]} has a decision and a result: pass one of them")
        return AnsweredState(self, _check_approvals(self, approvals or {}), _check_results(self, results or {}))

    @property
    def approvals(self) -> dict[str, Approval]:
        """The recorded decisions on calls of the current round, by the call's id; of a stored state none."""
        return dict(self._approvals)

    @property
    def open_calls(self) -> list[str]:
        """The ids of the calls without a result, in call order."""
        have_results = {result.call_id for result in self.results}
        return [call.id for call in self.calls if call.id not in have_results]

    @classmethod
    def from_round(cls, paused: Round, pending: list[ToolCall], **fields: Any) -> RunState:
        """Return the state of a paused round.

        Args:
            paused: the round.
            pending: its calls that await approval.
            **fields: the fields of the run, and ``awaiting_results``.
        """
        results = [StoredResult.from_result(result) for result in paused.results_so_far]
        calls = list(paused.calls)
        return cls(
            assistant=paused.assistant, calls=calls, results=results, pending=[call.id for call in pending], **fields
        )

    def to_round(self, context: RoundContext, shape: ThreadLayout) -> Round:
        """Return the current round, ready to continue in a resumed run's context. Its response must have been read."""
        assert self.assistant is not None  # noqa: S101 - the caller has checked
        by_id = {call.id: call for call in self.calls}
        results = [stored.to_result(by_id[stored.call_id]) for stored in self.results]
        return Round.restore(
            self.assistant,
            self.calls,
            results,
            self.pending,
            provider=context.provider,
            shape=shape,
            options=context.render_options,
        )


@dataclass(frozen=True, slots=True)
class AnsweredState:
    """A run that was left, with what its calls were waiting for. It is not stored: the state is.

    Attributes:
        state: the state.
        approvals: the decisions on calls, by the call's id, those of recorded entries included.
        results: the results that come from the client, by the call's id.
    """

    state: RunState
    approvals: Mapping[str, Approval | bool]
    results: Mapping[str, ToolResult]


def _check_time(name: str, seconds: Any) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not math.isfinite(seconds):
        raise UsageError(f"{name} must be a time in seconds, such as time.time(), not {seconds!r}")
    return seconds


def _check_key(key: bytes | str) -> bytes:
    secret = key.encode() if isinstance(key, str) else key
    if not isinstance(secret, bytes) or not secret:
        raise UsageError("the key that signs a state must be bytes or a text that is not empty")
    return secret


def _signed_bytes(data: Any) -> bytes:
    try:  # in one form, since a database may order the keys of an object differently
        return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    except RecursionError:
        raise UsageError("the state is nested too deeply") from None


def _find_problem(state: RunState) -> str | None:
    """Return in which way the parts of a state contradict each other, or None."""
    known = [call.id for call in state.calls]
    answered = [result.call_id for result in state.results]
    assistant = state.assistant
    blocks = [] if assistant is None else [block for block in assistant.blocks if isinstance(block, ToolCallBlock)]
    earlier = {
        block.id
        for content in [*state.history, *state.contents]
        for block in content.blocks
        if isinstance(block, ToolCallBlock)
    }
    open_calls = [*state.pending, *state.awaiting_results]
    if state.is_paused and not open_calls:
        return "no call of the state awaits approval or its result"
    unknown = [call_id for call_id in [*answered, *open_calls] if call_id not in set(known)]
    if unknown:
        return f"the state refers to calls that it does not contain: {', '.join(unknown)}"
    if len(set(known)) < len(known) or [call.index for call in state.calls] != list(range(len(known))):
        return "a call of the state is in it twice, or its calls are not in their order"
    if len({*answered, *open_calls}) < len(answered) + len(open_calls):
        return "a call of the state has two results, or has a result and awaits approval or its result"
    first_open = min(map(known.index, open_calls), default=0)
    if state.is_paused and any(call_id not in answered for call_id in known[:first_open]):
        return "a call of the state has no result, although no call before it awaits approval or its result"
    if (assistant is not None and assistant.speaker != "ai") or [block.id for block in blocks] != known:
        return "the calls of the state are not those of its assistant's content"
    if reused := earlier.intersection(known):
        return f"calls of the state are also in the conversation before it: {', '.join(sorted(reused))}"
    for call, block in zip(state.calls, blocks, strict=True):
        if call.name != block.name or call.kind != block.kind:
            return f"the call {call.id} has another tool than its block in the assistant's content"
        if call.state == "complete" and call.arguments != block.parameters:
            return f"the call {call.id} has other arguments than its block in the assistant's content"
        if call.state != "complete" and call.id in open_calls:
            return f"the call {call.id} awaits approval or its result, but it is {call.state} and may not run"
    return None


def _check_approvals(state: RunState, approvals: Mapping[str, Approval | bool]) -> dict[str, Approval | bool]:
    """Return the approvals of a resumed run's calls, those of its entries included, checked.

    Raises:
        UsageError: one is for a call that does not await approval, or is neither a bool nor an ``Approval``.
    """
    if not isinstance(approvals, Mapping):
        raise UsageError(f"approvals must be a dict by the calls' ids, not {type(approvals).__name__}")
    allowed = state.pending if state.is_paused else state.open_calls
    for call_id, approval in approvals.items():
        if call_id not in allowed:
            raise UsageError(f"no call {call_id!r} awaits approval; these do: {', '.join(allowed) or 'none'}")
        if call_id in state.approvals:
            raise UsageError(f"a decision on {call_id} is recorded: a call takes one")
        if not isinstance(approval, (Approval, bool)):
            raise UsageError(f"the approval of {call_id} must be True, False or an Approval, not {approval!r}")
    return {**approvals, **state.approvals}


def _check_results(state: RunState, results: Mapping[str, Any]) -> dict[str, ToolResult]:
    """Return the results that come from the client, by the call's id, checked.

    Raises:
        UsageError: one is for a call that does not await its result, or cannot be written as JSON.
    """
    if not isinstance(results, Mapping):
        raise UsageError(f"results must be a dict by the calls' ids, not {type(results).__name__}")
    allowed = state.awaiting_results if state.is_paused else state.open_calls
    by_id = {call.id: call for call in state.calls}
    checked: dict[str, ToolResult] = {}
    for call_id, value in results.items():
        if call_id not in allowed:
            raise UsageError(f"no call {call_id!r} awaits its result; these do: {', '.join(allowed) or 'none'}")
        call = by_id[call_id]
        if isinstance(value, ToolFailed):
            error = exception_text(value) or f"{call.name} failed."
            checked[call_id] = ToolResult(call, "error", error=error, exception=value, cause="failed")
        elif isinstance(value, BaseException):
            error = f"{call.name} failed with {describe_for_model(value)}."
            checked[call_id] = ToolResult(call, "error", error=error, exception=value, cause="raised")
        else:
            checked[call_id] = to_sendable_result(ToolResult(call, "completed", value))
            if (exception := checked[call_id].exception) is not None:  # the caller can correct it, and the model cannot
                raise UsageError(f"the result of {call_id} cannot be written as JSON: {exception}")
    return checked
