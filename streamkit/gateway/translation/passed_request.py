"""A client's request for an upstream that speaks its dialect: the client's body, with what the gateway must change.

Its fields, parts and their order stay as they came, also those that nobody knows yet. What changes is found in neutral
form: the request is rendered once as the client has sent it and once as the upstream must get it, and what differs
between these two is changed in the body (docs/rules.md, "Requests").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamkit.history.repair import HistoryCheck
from streamkit.providers.contract.traits import Traits
from streamkit.providers.requests.request import Request

__all__ = ["pass_request"]

Json = dict[str, Any]
_NOTHING = object()  # where the body has no such value


def pass_request(
    body: Json,
    given: Request,
    wanted: Request,
    render: Callable[..., Json],
    model: str,
    traits: Traits,
    changes: list[str],
) -> Json:
    """Return the body of a client for an upstream of its dialect.

    Args:
        body: the body of the client.
        given: the same in neutral form.
        wanted: what the upstream gets.
        render: returns the body of a request for the upstream, for (request, repair, settings, changes).
        model: the name of the model at the upstream.
        traits: those of the upstream.
        changes: the sentences for what ``given`` lacks of the body; it has those for what the upstream does not get.
    """
    is_regular = HistoryCheck().accepts(wanted.contents, is_end=True)
    report: list[str] = []
    before = after = render(wanted, settings={"model": model}, changes=report)
    if wanted is not given or not is_regular or model != given.settings.model:
        known: list[str] = []
        before = render(given, repair=False, settings=None, changes=known)
        report = [change for change in report if change not in known]
    else:
        report = []
    field = traits.messages_field
    passed: Json = {**_apply(body, before, after)}
    if isinstance(messages := body.get(field), list) and len(messages) != len(before.get(field, ())):
        passed[field] = after[field]  # the upstream would refuse them as they are, and they cannot be compared
    else:
        changes.clear()
    changes += report
    if traits.stream_usage:  # which clients need not ask for
        options = passed.get("stream_options")
        passed["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
    return passed


def _apply(value: Any, before: Any, after: Any) -> Any:
    """Return a value with what differs between two others that were made of it."""
    if before is after or before == after:
        return after if value is _NOTHING else value
    if isinstance(value, dict) and isinstance(before, dict) and isinstance(after, dict):
        kept = {name: each for name, each in value.items() if name in after or name not in before}
        for name, each in after.items():
            if name not in before or before[name] != each:
                kept[name] = _apply(value.get(name, _NOTHING), before.get(name, _NOTHING), each)
        return kept
    if isinstance(value, list) and isinstance(before, list) and isinstance(after, list) and len(value) == len(before):
        if len(before) == len(after):
            return [_apply(*each) for each in zip(value, before, after, strict=True)]
        shorter = min(len(before), len(after))
        first = next((place for place in range(shorter) if before[place] != after[place]), shorter)
        last = next((place for place in range(shorter - first) if before[~place] != after[~place]), shorter - first)
        return [*value[:first], *after[first : len(after) - last], *value[len(value) - last :]]
    return after
