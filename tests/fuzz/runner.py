"""One damaged stream for each seed, and the command that tries seeds for as long as wanted."""

from __future__ import annotations

import argparse
import random
import time
import traceback
from collections import Counter
from functools import cache

from fuzz.checks import LONGEST, check_memory, check_turn
from fuzz.mutations import Source, amplify, mutate, sources

from streamkit.reading.leaked_markup import LeakedMarkup

__all__ = ["PROVIDERS", "main", "memory_seed", "stream_seed"]


@cache
def _sources_of(provider: str) -> tuple[Source, ...]:
    return tuple(source for source in sources() if source.provider == provider)


PROVIDERS = sorted({source.provider for source in sources()})


def stream_seed(provider: str, seed: int) -> str | None:
    """Check one damaged stream of a provider; return the kind of its error, None if it has none.

    Raises:
        AssertionError: a check failed; the message starts with the provider and the seed.
    """
    chance = random.Random(seed)  # noqa: S311 - choices of tests, no secrets
    source = chance.choice(_sources_of(provider))
    chunks = mutate(source, chance)
    try:
        turn = check_turn(provider, chunks, chance)
    except Exception as error:
        raise AssertionError(f"{provider} {seed} ({source.name}): {type(error).__name__}: {error}") from error
    return turn.error.kind if turn.error is not None else None


def memory_seed(provider: str, seed: int, length: int = LONGEST) -> str | None:
    """Check what is held of one stream without an end; return the kind of its error, None if it has none.

    Raises:
        AssertionError: too much is held; the message starts with the provider and the seed.
    """
    chance = random.Random(seed)  # noqa: S311 - choices of tests, no secrets
    source = chance.choice(_sources_of(provider))
    try:
        markup: LeakedMarkup = chance.choice(("keep", "keep", "strip", "recover"))
        form = chance.choice(("bytes", "bytes", "dict"))
        return check_memory(provider, amplify(source, chance), markup=markup, form=form, length=length)
    except Exception as error:
        raise AssertionError(f"{provider} {seed} ({source.name}): {type(error).__name__}: {error}") from error


def main() -> None:
    """Try seeds until the time is over; print every failure and how the streams ended."""
    options = argparse.ArgumentParser(prog="fuzz", description="Check damaged streams of every provider.")
    options.add_argument("--minutes", type=float, default=1.0)
    options.add_argument("--seed", type=int, default=0, help="of the first stream; later ones count up")
    options.add_argument("--only", type=int, help="repeat the stream of this seed, with its traceback")
    options.add_argument("--provider", choices=PROVIDERS, help="only this provider")
    options.add_argument("--check", choices=("stream", "memory"), default="stream")
    given = options.parse_args()
    check = stream_seed if given.check == "stream" else memory_seed
    names = [given.provider] if given.provider else PROVIDERS
    if given.only is not None:
        for name in names:
            print(name, check(name, given.only))
        return
    outcomes: Counter[str] = Counter()
    until, seed = time.monotonic() + 60 * given.minutes, given.seed
    while time.monotonic() < until:
        for name in names:
            try:
                outcomes[str(check(name, seed))] += 1
            except AssertionError as failure:
                outcomes["FAILED"] += 1
                at = traceback.extract_tb((failure.__cause__ or failure).__traceback__)[-1]
                print(f"{str(failure)[:600]} ({at.filename.rsplit('/', 1)[-1]}:{at.lineno})", flush=True)
        seed += 1
    print(", ".join(f"{kind} {count}" for kind, count in outcomes.most_common()))
