"""The conversation of a run: what rounds, the application and hooks add to it, and the entries of that.

The application sends contents from any task or thread, or by the mailbox of a store; they are appended between two
rounds. Hooks replace the context of a request; an entry has only the difference, so that a hook that adds a content
each round does not store the conversation each round. This module must not depend on turns, or on what ends a run.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from streamkit.calls import StreamWarning, ToolResult
from streamkit.errors import UsageError
from streamkit.execution.one_call.nested import OuterRun
from streamkit.execution.round.context import BeforeEveryRequest, RoundContext, check_hook
from streamkit.execution.round.round import Round
from streamkit.execution.round.thread_update import ThreadUpdate
from streamkit.execution.run.options import LoopOptions
from streamkit.history import Content
from streamkit.reading.turn import Turn

if TYPE_CHECKING:
    from streamkit.execution.durable.entries import HistoryChange, RunEntry
    from streamkit.execution.durable.recorder import Checkpoint, Recorder
    from streamkit.execution.durable.state import RunState

__all__ = ["Conversation", "RunWarnings"]


class RunWarnings:
    """The warnings of a run so far. Those of its current turn are read from the turn, which adds more of them.

    Attributes:
        turn: the current turn; None between two turns.
    """

    def __init__(self) -> None:
        self.turn: Turn | None = None
        self._warnings: list[StreamWarning] = []
        self._of_turn = 0  # how many of the turn's are among these
        self._unrendered: Callable[[], ThreadUpdate] | None = None  # of an answer whose warnings are not among these
        self._reported_changes: set[str] = set()

    def all(self) -> list[StreamWarning]:
        """Return the warnings; the list itself, to which others may be added."""
        if self.turn is not None:
            added = self.turn.warnings[self._of_turn :]
            self._of_turn += len(added)
            self._warnings += added
        if self._unrendered is not None:
            render, self._unrendered = self._unrendered, None
            self.add(render().warnings)
        return self._warnings

    def add(self, warnings: Sequence[StreamWarning]) -> None:
        """Add warnings; each change of content once a run, because every round renders the history again."""
        for warning in warnings:
            if warning.code != "content_changed" or warning.message not in self._reported_changes:
                self.all().append(warning)
                if warning.code == "content_changed":
                    self._reported_changes.add(warning.message)

    def add_changes_of(self, render: Callable[[], ThreadUpdate]) -> None:
        """Add, when the warnings are read, those about the changes that rendering makes to what an answer adds."""
        self.all()
        self._unrendered = render

    def end_turn(self) -> None:
        """Add the last warnings of the current turn."""
        self.all()
        self.turn, self._of_turn = None, 0


class Conversation:
    """The conversation of one run.

    Args:
        context: what the first request is made from.
        options: how rounds are made.
        run_key: the stable name of the run.
        outer: the run that it is inside of; None if it is inside of none.
    """

    def __init__(
        self, context: RoundContext, options: LoopOptions, run_key: str, outer: OuterRun | None = None
    ) -> None:
        self.context: RoundContext = context  # what the next request is made from
        self._outer = outer
        self.attempts: Counter[str] = Counter()  # how often calls may have run before, by their ids
        self._inner: dict[str, list[RunEntry]] = {}  # the stored entries of runs inside of calls, by run key
        self.contents: list[Content] = []  # what the run added
        self.results: list[ToolResult] = []  # the results of the rounds that were appended
        self._warnings = RunWarnings()
        self.run_key = run_key
        self.options = options
        self.layout = options.execution.layout
        self.deadline: float = inf  # when its time limit passes, by the event loop's clock; infinity without one
        self.recorder: Recorder | None = None  # makes the entries of the run; None if it has no ``checkpoint``
        if options.checkpoint is not None:
            from streamkit.execution.durable.recorder import Recorder  # few runs are durable, and it has many models

            self.recorder = Recorder(options.checkpoint, run_key, self.layout)
        self.inbox: deque[Content] = deque()  # what was sent to the run and not added to the conversation
        self._is_closed = False  # nothing can be sent any more
        self._inbox_lock = threading.Lock()
        self._recorded_messages = 0  # how many at the start of the inbox have an entry
        self._correction: Content | None = None  # of the next request
        self._base, self._base_count = context, 0  # before hooks: the context, and how many contents were added
        self._derived = context.messages  # the messages that follow from the entries
        self._recorded: RoundContext | None = None  # that of the last request entry

    def restore(self, state: RunState) -> None:
        """Continue the conversation of a run that was left, and its entries."""
        self.contents = list(state.contents)
        self._base_count = len(self.contents)
        self.inbox.extend(state.messages)
        self.attempts.update(state.attempts)
        for nested in state.nested:
            self._inner.setdefault(nested.entry.run_key, []).append(nested.entry)
        if self.recorder is not None:
            self._recorded_messages = len(state.messages) if state.position else 0
            recorded = [result.call_id for result in state.results]
            self.recorder.resume(state.position, recorded, state.approvals)

    def add_warnings(self, warnings: Sequence[StreamWarning]) -> None:
        """Add warnings; each change of content once a run."""
        self._warnings.add(warnings)

    def append(self, update: ThreadUpdate, *, is_round_over: bool) -> None:
        """Append the update of a round, or of a part of one."""
        self.contents += update.contents
        self.results += update.results
        self.add_warnings(update.warnings)
        self.context = self._base = self.context.with_update(update, is_round_over=is_round_over)
        self._correction = None
        self._base_count, self._derived = len(self.contents), self.context.messages

    def append_answer(self, turn: Turn, *, is_round_over: bool) -> None:
        """Append a turn without calls.

        Its messages are needed by a run with a ``thread`` only. Else they would be rendered for the warnings alone,
        which is done when these are read.
        """
        layout, context = self.layout, self.context

        def update() -> ThreadUpdate:
            return Round(turn, shape=layout, options=context.render_options).update()

        if context.messages is not None:
            self.append(update(), is_round_over=is_round_over)
            return
        self._warnings.add_changes_of(update)
        content = turn.content
        self.append(ThreadUpdate([], [content] if content.blocks else [], []), is_round_over=is_round_over)

    # ---------------------------------------------------------------- what is sent to it, and what hooks change

    def send(self, content: Content) -> None:
        """Keep a content for the next request; from any thread.

        Raises:
            UsageError: the run has ended, or it is no content.
        """
        if not isinstance(content, Content):
            raise UsageError(f"send takes a Content, such as Content.human(text), not {type(content).__name__}")
        with self._inbox_lock:
            if self._is_closed:
                raise UsageError("the run has ended: add the content to run.history, for the next run")
            self.inbox.append(content)

    async def receive(self) -> bool:
        """Append what was sent to the run to the conversation, and record it; return False if nothing was."""
        recorder = self.recorder
        mail: list[tuple[str, Content]] = []
        if recorder is not None and recorder.lease is not None:
            mail = await recorder.lease.receive()
        await self.record_inbox()
        count = len(self.inbox) if recorder is None else self._recorded_messages  # another thread may send more
        self._recorded_messages = 0
        for _ in range(count):
            self._append_message(self.inbox.popleft())
        for mail_id, content in mail:
            assert recorder is not None  # noqa: S101 - its lease has the mail
            await recorder.message(content, mail_id)
            self._append_message(content)
        return bool(count or mail)

    async def record_inbox(self) -> None:
        """Record what was sent and has no entry yet."""
        while self.recorder is not None and self._recorded_messages < len(self.inbox):
            await self.recorder.message(self.inbox[self._recorded_messages])
            self._recorded_messages += 1

    def close_inbox(self, *, is_kept: bool) -> None:
        """Take nothing more that is sent; append what no request will contain, unless a state keeps it."""
        with self._inbox_lock:
            self._is_closed = True
        while self.inbox and not is_kept:
            self._append_message(self.inbox.popleft())

    def _append_message(self, content: Content) -> None:
        correction = self._correction
        self.append(self.context.message_update(content), is_round_over=False)
        self._correction = correction

    def correct(self, message: Content) -> None:
        """Append the message that corrects the model's output, which the entry of the next request has."""
        self._append_message(message)
        self._correction = message

    async def call_hooks(self) -> None:
        """Replace the context by what the hooks return before a request."""
        is_first = self.context.round == 0
        for hook in self.options.before_follow_up:
            if not is_first or isinstance(hook, BeforeEveryRequest):
                context = await check_hook("before_follow_up", hook(self.context), self.context)
                self.context = context or self.context
        self.replace_context(self.context)

    def replace_context(self, context: RoundContext) -> None:
        """Take the context that hooks have made; what they have added at its end counts among the run's contents."""
        base = self._base
        added: list[Content] = []
        if context.contents is not base.contents:
            number = _find_added(base.contents, context.contents)
            added = context.contents[number:]
            if added and context.messages is not None and context.messages is base.messages:
                context = replace(context, contents=context.contents[:number])
                for content in added:
                    context = context.with_update(context.message_update(content))
                self._derived = context.messages
        self.contents[self._base_count :] = added
        self.context = context

    async def record_request(self, pauses: int) -> None:
        """Record the request that is about to be made of the context, unless that is recorded."""
        recorder, base, context = self.recorder, self._base, self.context
        if recorder is None or context is self._recorded:
            return
        change: HistoryChange | None = None
        added: list[Content] = []
        if context.contents is not base.contents:
            from streamkit.execution.durable.entries import HistoryChange  # the recorder has loaded it

            number = _find_added(base.contents, context.contents)
            change = HistoryChange.between(base.contents, context.contents[:number])
            added = context.contents[number:]
        is_first = recorder.position == 0  # recorded before hooks are called
        history = context.contents if is_first else None
        thread = context.messages if is_first or context.messages is not self._derived else None
        await recorder.request(context, pauses, history, thread, self._correction, change, added)
        self._recorded = context

    # ---------------------------------------------------------------- its calls, and runs inside them

    @property
    def fence(self) -> int | None:
        """The number of the claim on it; None without one."""
        return None if self.recorder is None else self.recorder.fence

    def attempt(self, call_id: str) -> int:
        """Return the number of the attempt at a call, from 1."""
        return self.attempts[call_id] + 1

    def inner_checkpoint(self, call_id: str) -> Checkpoint | None:
        """Return the checkpoint of a run inside a call; None if this run has none."""
        return None if self.recorder is None else self.recorder.nested(call_id)

    def inner_entries(self, run_key: str) -> list[RunEntry]:
        """Remove and return the stored entries of a run inside a call; none if it is new."""
        if self._outer is not None:
            return self._outer.inner_entries(run_key)
        return self._inner.pop(run_key, [])


def _find_added(before: Sequence[Content], after: Sequence[Content]) -> int:
    """Return where the contents begin that were added at the end of a conversation; its length if none were."""
    if not before:
        return 0
    for is_last in (lambda content: content is before[-1], lambda content: content == before[-1]):
        for number in range(len(after), 0, -1):
            if is_last(after[number - 1]):
                return number
    return len(after)
