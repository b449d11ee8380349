"""What each neutral finish reason means: one row a reason, read by everything that decides by one.

The rules are in docs/rules.md, "Finish and confirmation". A reason without a row is an error at import, and a row
forbids calls until it allows them: what is new is never executable by default. The module must not depend on how a
provider names its reasons, nor on how calls are run.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from msgspec import Struct

from streamkit.calls import Finish, FinishReason
from streamkit.values.total_tables import check_total

__all__ = ["FINISH_ROWS", "FinishRow", "finish_row"]


class FinishRow(Struct, frozen=True, kw_only=True):
    """What a finish reason means for a response, its calls and its run."""

    runs_calls: bool = False  #: whether the response's complete calls may run
    #: Why complete calls are not run, as a part of a sentence for the model.
    not_run_because: str = "the provider ended the response that made the call in an error"
    is_error: bool = False  #: whether the response failed, also if the wire sent no error
    is_cut_short: bool = False  #: whether it stopped in the middle, so that arguments of its last call may be missing
    #: Why the arguments of an incomplete call are missing, as a part of a sentence for the model.
    incomplete_because: str = "the response ended there"
    #: What becomes of the run if no call of the response may run: the provider is asked to continue (``pause``), or the
    #: run ends so. None: nothing because of the reason.
    outcome: Literal["pause", "refusal", "filtered", "length"] | None = None


FINISH_ROWS: Final[dict[FinishReason, FinishRow]] = {
    "stop": FinishRow(runs_calls=True),
    "tool_calls": FinishRow(runs_calls=True),
    "length": FinishRow(
        runs_calls=True,
        is_cut_short=True,
        incomplete_because="the response reached its length limit",
        outcome="length",  # another request would be truncated at the same place (lobehub/lobehub#13817: 17 steps)
    ),
    "content_filter": FinishRow(
        not_run_because="the provider's content filter stopped the response that made the call", outcome="filtered"
    ),
    "refusal": FinishRow(not_run_because="the response that made the call was a refusal", outcome="refusal"),
    "pause": FinishRow(not_run_because="the provider paused the response that made the call", outcome="pause"),
    "error": FinishRow(is_error=True, is_cut_short=True),
    "other": FinishRow(runs_calls=True),  # a provider's new reason is no error; its own name is in ``Finish.raw``
}
check_total("streamkit.finishes.FINISH_ROWS", FINISH_ROWS, get_args(FinishReason))

#: Of a response without a finish, or with the reason of a third party's parser that no row has: no call of it runs.
_UNDECLARED: Final = FinishRow()


def finish_row(finish: Finish | None) -> FinishRow:
    """Return what a response's finish means; without one, its calls may not run."""
    return _UNDECLARED if finish is None else FINISH_ROWS.get(finish.reason, _UNDECLARED)
