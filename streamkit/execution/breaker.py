"""The circuit breaker: the same call, failing the same way again and again. Pure.

A model that is told what is wrong and does it again will do it a fourth time, at the price of a request each
(HKUDS/nanobot#5169; lobehub/lobehub#13817: 17 steps, 487k tokens).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from streamkit.calls import ToolCall, ToolResult

__all__ = ["FAILURES", "CircuitBreaker"]

FAILURES = 3  #: rounds in which the same call with the same arguments may fail

_FAILED = ("error", "timed_out", "denied")


class CircuitBreaker:
    """Counts failures of equal calls over the rounds of a run.

    Args:
        failures: those that there were before.
    """

    def __init__(self, failures: Mapping[str, int] | None = None) -> None:
        self._failures: Counter[str] = Counter(failures)

    @property
    def failures(self) -> dict[str, int]:
        """How often each call has failed; to be stored, and to begin with again."""
        return dict(self._failures)

    def trips(self, results: Sequence[ToolResult]) -> bool:
        """Take a round's results: whether one of its calls has now failed in ``FAILURES`` rounds, never succeeding.

        Equal calls of one round count once: the model had not been told yet.
        """
        failed = {_identity(result.call) for result in results if result.status in _FAILED}
        for result in results:
            if result.status == "completed":
                self._failures.pop(_identity(result.call), None)
        self._failures.update(failed)
        return any(self._failures[call] >= FAILURES for call in failed)


def _identity(call: ToolCall) -> str:
    arguments = call.arguments if call.state == "complete" else call.arguments_text
    return json.dumps([call.name, arguments], sort_keys=True, default=repr)
