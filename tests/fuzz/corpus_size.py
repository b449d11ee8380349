"""The corpus, kept small by coverage: an input stays only if it reaches a line or branch that no other reaches."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias

import coverage
from fuzz.inputs import Input
from fuzz.targets import CORPUS, examine, seeds, stored_inputs

__all__ = ["add_to_corpus"]

#: Two lines of one module, executed one after the other, on the way of one target.
Arc: TypeAlias = tuple[str, str, int, int]
_LARGEST = 16_000  #: bytes of the corpus of one target
_LONGEST = 2000  #: bytes of one input
_MOST_SEEDS = 80  #: undamaged inputs that are fed first
_MOST_CANDIDATES = 150
_FEWEST_NEW = 3  #: arcs that an input must add


def add_to_corpus(added: Iterable[Input]) -> list[str]:
    """Rewrite the corpus with what is in it and with new inputs, as far as they reach what the others do not.

    Undamaged inputs count as reached: they are made of the cases and the recorded streams, and need no copy.

    Args:
        added: the new inputs, of which those with a finding are left out.

    Returns:
        One line for each target whose corpus has changed.
    """
    by_target: dict[str, list[Input]] = defaultdict(list)
    for given in [*stored_inputs(), *added]:
        by_target[given.target].append(given)
    CORPUS.mkdir(exist_ok=True)
    lines = []
    for name, candidates in by_target.items():
        reached: set[Arc] = set()
        for given in seeds(name)[:: len(seeds(name)) // _MOST_SEEDS + 1]:
            reached |= _arcs(given) or set()
        kept: list[bytes] = []
        short = [given for given in candidates if len(given.to_json()) <= _LONGEST]
        for given in sorted(short, key=lambda each: len(each.to_json()))[:: len(short) // _MOST_CANDIDATES + 1]:
            document = given.to_json()
            if sum(map(len, kept)) + len(document) > _LARGEST:
                break
            arcs = _arcs(given)
            if arcs is not None and len(arcs - reached) >= _FEWEST_NEW:
                reached |= arcs
                kept.append(document)
        if kept:
            (CORPUS / f"{name}.jsonl").write_bytes(b"".join(document + b"\n" for document in kept))
        lines.append(f"{name}: {len(kept)} of {len(candidates)} inputs, {sum(map(len, kept)):,} bytes")
    return lines


def _arcs(given: Input) -> set[Arc] | None:
    """Return the arcs of the package that an input reaches; None if it has a finding."""
    measured = coverage.Coverage(data_file=None, branch=True, source_pkgs=["streamkit"], config_file=False)
    with warnings.catch_warnings():  # the package was imported before it is measured
        warnings.simplefilter("ignore")
        measured.start()
    try:
        finding, _, _ = examine(given)
    finally:
        measured.stop()
    if finding is not None:
        return None
    data = measured.get_data()
    return {(given.target, file, *arc) for file in data.measured_files() for arc in data.arcs(file) or ()}
