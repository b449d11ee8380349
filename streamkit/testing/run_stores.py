"""The conformance of a store of runs: ``check_run_store`` tries the rules of positions and claims on any store.

The rules are in ``docs/rules.md``, "Durable runs". This module must not depend on a database.
"""

from __future__ import annotations

import secrets
from typing import Any

from streamkit.execution import RequestEntry, ResumeEntry
from streamkit.history import Content

__all__ = ["check_run_store"]


async def check_run_store(store: Any) -> None:
    """Check that a store of your own inserts entries at their positions, once, and gives a run to one worker at a time.

    Args:
        store: has ``await store.claim(run_key)``, which returns an asynchronous context manager with ``append(entry)``
            and ``fence``, and ``await store.entries(run_key)``; as ``streamkit.bridges.run_store.RunStore`` has. A run
            with a new key is stored in it.

    Raises:
        AssertionError: the store does not keep a rule; the message has the rule.
    """
    run_key = f"check-{secrets.token_hex(8)}"
    first = RequestEntry(run_key=run_key, position=0, round=0, provider="openai_chat", history=[Content.human("Go.")])
    second, other = [ResumeEntry(run_key=run_key, position=1, call_ids=call_ids) for call_ids in ([], ["other"])]

    async def refuses(claim: Any, entry: Any, rule: str) -> None:
        try:
            await claim.append(entry)
        except Exception:
            return
        raise AssertionError(rule)

    async with await store.claim(run_key) as claim:
        await claim.append(first)
        await claim.append(first)
        await claim.append(second)
        stored = await store.entries(run_key)
        _check(
            stored == [first, second], f"an entry that its claim appends again is stored once, not {len(stored)} times"
        )
        await refuses(claim, other, "another entry at a position is refused")
        _check(await store.entries(run_key) == [first, second], "an entry that was refused changes nothing")
        try:
            async with await store.claim(run_key):
                pass
        except Exception:
            fence = claim.fence
        else:
            raise AssertionError("a run that a worker has is not given to another one")
    async with await store.claim(run_key) as claim:
        _check(claim.fence > fence, "the fence of a claim is above those of all earlier claims of the run")
        await refuses(claim, second, "an equal entry of an earlier claim is refused: its run has come first")
        await claim.append(other.model_copy(update={"position": 2}))
        positions = [entry.position for entry in await store.entries(run_key)]
        _check(positions == [0, 1, 2], f"entries are returned in the order of their positions, not as {positions}")


def _check(is_kept: bool, rule: str) -> None:
    if not is_kept:
        raise AssertionError(rule)
