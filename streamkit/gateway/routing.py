"""Which upstreams are asked for a model, in which order, and which of them are left alone after they have failed.

``Router`` finds the upstreams of a model by the names and patterns of ``Upstream.models``. ``Cooldowns`` has those that
were overloaded, limited a rate, or could not be reached: each is asked again when the time has passed that it stated,
or a delay that grows with each failure, and then by one request at a time until one of them has a response. A failure
is that of one upstream and one model, because rates are limited by the model. This module must not depend on ASGI.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from random import random
from time import monotonic
from typing import Any, NamedTuple

from msgspec import structs

from streamkit import providers
from streamkit.calls import StreamError
from streamkit.errors import UsageError
from streamkit.gateway.upstream import ANY_MODEL, Upstream

__all__ = ["Candidate", "Cooldowns", "ModelNotFound", "Router"]

_LONGEST_NAME = 2048  # characters; the most for a model of Bedrock. Most wires repeat the client's in every chunk
_DOT, _SLASH = r"(?:\.|%(?:25)*2e)", r"(?:[/\\]|%(?:25)*(?:2f|5c))"
#: Names that lead to another path of the upstream, also where one of its servers decodes the path once more.
_NO_NAME = re.compile(rf"{_DOT}{{1,2}}", re.IGNORECASE)
_NO_SEGMENT = re.compile(rf"(?:^|{_SLASH}){_DOT}{{0,2}}(?:$|{_SLASH})", re.IGNORECASE)
_MOST_LISTED = 50  # names in an error
_MOST_ENTRIES = 1000  # of failures; clients choose the names of models
_OVERLOADED = (429, 503, 529)
_MOST_DOUBLED = 60
_PROBE = 1.0  # seconds that a client waits while another request asks
_REQUEST_AT_FAULT = ("context_overflow", "invalid_request", "content_policy")


class ModelNotFound(Exception):
    """No upstream has the model that a request names."""


class Candidate(NamedTuple):
    """An upstream that can be asked for a model.

    Attributes:
        position: the number of the upstream, from 1 on.
        upstream: the upstream.
        model: its own name of the model.
    """

    position: int
    upstream: Upstream
    model: str

    @property
    def key(self) -> tuple[int, str]:
        """What a failure belongs to."""
        return self.position, self.model


class Router:
    """The upstreams of a gateway by the models that they name."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        self._upstreams = [(upstream, upstream.targets()) for upstream in upstreams]

    def find(self, named: str | None, body: Any) -> list[Candidate]:
        """Return the upstreams that can be asked for a model: those that name it, then those that take every name.

        An upstream without names gets only models that no other one names.

        Args:
            named: the client's name of the model in the path; None if the body has it.
            body: the decoded body of the request.

        Raises:
            ModelNotFound: no upstream has it.
            UsageError: the request names no model, or something else.
        """
        if not isinstance(body, dict):
            raise UsageError("the body of a request must be a JSON object")
        name = body.get("model") if named is None else named
        name = name if isinstance(name, str) else ""
        naming: list[Candidate] = []
        taking_all: list[Candidate] = []
        without_names: list[Candidate] = []
        for position, (upstream, targets) in enumerate(self._upstreams, 1):
            model, group = targets.get(name), naming
            if not targets:
                model, group = name, without_names
            elif model is None:
                longest = 0
                for pattern, target in targets.items():
                    start, star, end = pattern.partition("*")
                    fits = star and len(start + end) <= len(name) and name.startswith(start) and name.endswith(end)
                    if fits and len(pattern) > longest:
                        longest, group = len(pattern), taking_all if pattern == ANY_MODEL else naming
                        model = target.replace("*", name[len(start) : len(name) - len(end)])
            if model is None:
                continue
            is_in_path = "{" in providers.get(upstream.provider).traits.endpoint.path
            is_too_long = max(len(model), len(name)) > _LONGEST_NAME
            if is_too_long or _NO_NAME.fullmatch(model) or (is_in_path and _NO_SEGMENT.search(model)):
                raise UsageError(f"{model[:100] or name[:100]!r} is no name of a model")
            group.append(Candidate(position, upstream, model))
        found = naming + taking_all if naming else sorted(taking_all + without_names, key=itemgetter(0))
        if name and not found:
            known = [name for _, targets in self._upstreams for name in targets]
            names = ", ".join([*known[:_MOST_LISTED], *(["..."] if len(known) > _MOST_LISTED else [])])
            raise ModelNotFound(f"this gateway has no model {name[:100]!r}: it has {names}")
        if not found or not found[0].model:
            raise UsageError("the request names no model: set the field 'model'")
        return found


@dataclass(slots=True)
class _Failure:
    """The failures of one upstream with one model since its last response."""

    error: StreamError  #: the last one
    until: float  #: the time from which on it may be asked
    count: int  #: the number of delays so far
    is_probed: bool  #: a request asks it after that time; no other one does


class Cooldowns:
    """The upstreams of one gateway that are not asked for a while, because they have failed.

    Args:
        first: seconds for which an upstream is not asked after a failure without a stated time, about; each further
            failure doubles them.
        longest: the most of these seconds.
        stated: the most seconds of a time that an upstream states (``retry-after``). With 0 for both, every request
            asks the upstreams.
        clock: returns seconds.
        random: returns a number from 0 to 1, so that the workers of a gateway do not ask at the same time.

    Attributes:
        failures: those since the last response, by `Candidate.key`.
    """

    def __init__(
        self,
        *,
        first: float = 1.0,
        longest: float = 30.0,
        stated: float = 600.0,
        clock: Callable[[], float] = monotonic,
        random: Callable[[], float] = random,
    ) -> None:
        self._first, self._longest, self._stated = first, longest, stated
        self._clock, self._random = clock, random
        self.failures: dict[tuple[int, str], _Failure] = {}

    def available(self, candidates: Sequence[Candidate], skipped: list[str]) -> list[Candidate]:
        """Return the upstreams that may be asked, and add a sentence for each other one to *skipped*.

        The only upstream of a model is always asked: there is no other one, and its client knows how long to wait.
        """
        if len(candidates) == 1:
            return list(candidates)
        waits = [(candidate, self.wait(candidate)) for candidate in candidates]
        for candidate, seconds in waits:
            if seconds > 0:
                name = providers.get(candidate.upstream.provider).name
                skipped.append(f"{name}: not asked for {math.ceil(seconds)} seconds, because it has failed")
        return [candidate for candidate, seconds in waits if seconds == 0]

    def wait(self, candidate: Candidate) -> float:
        """Return the seconds until an upstream may be asked, 0 for now."""
        failure = self.failures.get(candidate.key)
        if failure is None:
            return 0.0
        return max(failure.until - self._clock(), _PROBE if failure.is_probed else 0.0)

    def probe(self, candidate: Candidate) -> bool:
        """Let a request alone ask an upstream that has failed, until `release`; return False if it has not failed."""
        failure = self.failures.get(candidate.key)
        if failure is not None:
            failure.is_probed = True
        return failure is not None

    def release(self, candidate: Candidate) -> None:
        """Let the next request ask an upstream."""
        if (failure := self.failures.get(candidate.key)) is not None:
            failure.is_probed = False

    def fail(self, candidate: Candidate, error: StreamError, *, is_probe: bool, has_begun: bool = False) -> None:
        """Leave an upstream alone if an error is one of its load, or of the connection.

        Args:
            candidate: the upstream.
            error: the error, without secrets.
            is_probe: the request is the one that asked alone. Others began before the failure that they repeat.
            has_begun: the error came after the beginning of the response.
        """
        is_lost = error.kind in ("transport_error", "timed_out") and not has_begun
        is_loaded = error.code in ("rate_limited", "overloaded") or error.status in _OVERLOADED
        if not is_lost and (not is_loaded or error.code in _REQUEST_AT_FAULT):
            return
        failure = self.failures.pop(candidate.key, None)
        count = 1 if failure is None else failure.count + is_probe
        delay = min(self._first * 2.0 ** min(count - 1, _MOST_DOUBLED), self._longest) * (1 + self._random()) / 2
        until = self._clock() + (delay if error.retry_after is None else min(error.retry_after, self._stated))
        is_probed = failure is not None and failure.is_probed and not is_probe
        if failure is not None and failure.until > until:
            error, until = failure.error, failure.until
        if self._longest > 0 or self._stated > 0:
            self.failures[candidate.key] = _Failure(error, until, count, is_probed)
        if len(self.failures) > _MOST_ENTRIES:
            del self.failures[next(iter(self.failures))]

    def error(self, candidates: Sequence[Candidate]) -> StreamError:
        """Return the error for a client if all upstreams are left alone: that of the one that is asked soonest."""
        first = min((each for each in candidates if each.key in self.failures), key=self.wait)
        error, seconds = self.failures[first.key].error, max(1, math.ceil(self.wait(first)))
        name = providers.get(first.upstream.provider).name
        message = f"{name} is not asked for {seconds} more seconds, because it has failed: {error.message}"
        return structs.replace(error, message=message, raw=None, retry_after=float(seconds))
