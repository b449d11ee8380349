"""All targets by name, and the examination of one input."""

from __future__ import annotations

import random
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fuzz.checks import Fault
from fuzz.gateway_targets import GATEWAY_TARGETS
from fuzz.inputs import Input, sources
from fuzz.mutations import combine, mutate
from fuzz.request_targets import REQUEST_TARGETS
from fuzz.run_targets import RUN_TARGETS
from fuzz.stream_targets import STREAM_TARGETS
from fuzz.target import Target

from streamkit import providers

__all__ = ["CORPUS", "TARGETS", "Finding", "damaged", "examine", "joined", "seeds", "stored_inputs"]

TARGETS: dict[str, Target] = {
    target.name: target for target in (*STREAM_TARGETS, *REQUEST_TARGETS, *RUN_TARGETS, *GATEWAY_TARGETS)
}
CORPUS = Path(__file__).parent / "corpus"
_OF_STREAMS = ("feed_bytes", "feed_dicts", "one_frame", "framers", "write", "continued", "gateway_chain")


class Hang(BaseException):
    """Raised by a timer of the command within an input that takes too long; no code of the package catches it."""


@dataclass(frozen=True)
class Finding:
    """A way in which an input breaks a rule; equal for all inputs that break it in this way.

    Attributes:
        target: the name of the target.
        kind: ``exception``, ``hang``, ``crash``, or as in `checks.Fault`.
        where: the type of an exception and the innermost function of the package; otherwise the rule and the wire.
    """

    target: str
    kind: str
    where: str


def examine(given: Input) -> tuple[Finding | None, str, list[str]]:
    """Feed an input to its target; return the finding, its details, and sentences for the report."""
    target = TARGETS[given.target]
    try:
        return None, "", list(target.run(given) or ())
    except target.may_raise:
        return None, "", []
    except Fault as fault:
        wire = providers.get(given.provider).package.rpartition(".")[2]
        return Finding(given.target, fault.kind, f"{fault.rule} ({wire})"), str(fault), []
    except Hang:
        frames = traceback.format_exc(limit=-8)
        return Finding(given.target, "hang", given.provider), frames, []
    except Exception as error:
        return Finding(given.target, "exception", _place(error)), "".join(traceback.format_exception(error)), []


def _place(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/streamkit/" in frame.filename]
    where = f"{frames[-1].filename.rpartition('/streamkit/')[2]}:{frames[-1].name}" if frames else "the target"
    return f"{type(error).__name__} in {where}"


# ---------------------------------------------------------------- inputs of a target


@cache
def seeds(name: str) -> tuple[Input, ...]:
    """Return the undamaged inputs of a target."""
    return tuple(TARGETS[name].seeds())


def stored_inputs(name: str | None = None) -> list[Input]:
    """Return the inputs of the corpus, optionally those of one target: what the undamaged ones do not reach."""
    found = []
    for path in sorted(CORPUS.glob(f"{name or '*'}.jsonl")):
        for line in path.read_bytes().splitlines():
            stored = Input.from_json(line)
            assert stored is not None, f"{path.name}: {line[:100]!r}"
            found.append(stored)
    return found


def damaged(given: Input, chance: random.Random) -> Input:
    """Return an input of the same target with some mutations."""
    return mutate(given, chance, TARGETS[given.target].options, _donors(given, chance))


def joined(one: Input, other: Input, chance: random.Random) -> Input:
    """Return an input with parts of another one of its target; of another target, with some mutations."""
    return combine(one, other, chance) if one.target == other.target else damaged(one, chance)


def _donors(given: Input, chance: random.Random) -> Sequence[list[Any]]:
    """Return the parts of an undamaged input that may be inserted: mostly one of the same wire."""
    if given.target in _OF_STREAMS:
        name = given.provider if chance.random() < 0.8 else chance.choice(providers.names())
        return [list(chance.choice(_streams_of(name)).chunks)]
    return [chance.choice(seeds(given.target)).parts]


@cache
def _streams_of(provider: str) -> list[Any]:
    package = providers.get(provider).package
    return [source for source in sources() if providers.get(source.provider).package == package]
