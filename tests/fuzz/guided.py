"""The process in which atheris chooses inputs by the coverage they add: ``python -m tests.fuzz.guided FOLDER``.

The command starts it, since libFuzzer ends the process in which it runs, and a crash of the interpreter is a finding.
``FOLDER/plan.json`` is what to do, ``FOLDER/corpus`` the inputs to start from, ``FOLDER/report.json`` the result.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import random
import resource
import sys
from pathlib import Path
from time import monotonic

import atheris

sys.path.insert(0, str(Path(__file__).parent.parent))

_MOST_MEMORY = 3 << 30  # bytes: beyond it, an allocation raises MemoryError
_LONGEST = 40_000  #: bytes of a document
_ANEW = 0.15  #: the share of inputs that begin with an undamaged one of any target


def main(folder: Path) -> None:
    """Run the plan of a folder."""
    edges = _instrument()
    from fuzz.inputs import Input
    from fuzz.report import Report, examine_within
    from fuzz.targets import damaged, joined, seeds

    plan = json.loads((folder / "plan.json").read_text("utf-8"))
    report = Report()
    until = monotonic() + plan["seconds"] if plan["seconds"] else float("inf")
    current = folder / "current.json"

    def feed(data: bytes) -> None:
        given = Input.from_json(data)
        if given is not None and given.target in plan["targets"]:
            examine_within(given, report, current)
        if monotonic() > until or report.total >= (plan["inputs"] or float("inf")):
            report.edges = edges[0]
            report.is_whole = True
            report.save(folder / "report.json")
            sys.stderr.flush()
            os._exit(0)  # libFuzzer's own end has no hook
        if report.is_changed:
            report.save(folder / "report.json")

    def change(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        given = Input.from_json(data)
        if given is None or given.target not in plan["targets"] or chance.random() < _ANEW:
            # libFuzzer chooses by the inputs that a target has, so that one with few would get few
            given = chance.choice(seeds(chance.choice(plan["targets"])))
        return _fitting(damaged(given, chance), most) or data

    def cross(one: bytes, other: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        first, second = Input.from_json(one), Input.from_json(other)
        if first is None or second is None or first.target not in plan["targets"]:
            return change(one, most, seed)
        return _fitting(joined(first, second, chance), most) or one

    def _fitting(changed: Input, most: int) -> bytes | None:
        try:
            data = changed.to_json()
        except (ValueError, RecursionError):  # values within values
            return None
        return data if len(data) <= most else None

    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    options = (f"-max_len={_LONGEST}", f"-seed={plan['seed'] + 1}", "-timeout=300", "-rss_limit_mb=0", "-verbosity=1")
    corpus, artifacts = str(folder / "corpus"), f"-artifact_prefix={folder}/"
    atheris.Setup([sys.argv[0], *options, artifacts, corpus], feed, custom_mutator=change, custom_crossover=cross)
    atheris.Fuzz()


def _instrument() -> list[int]:
    """Import all of streamkit with counters at its branches; return how many there are."""
    reserve, count = atheris._reserve_counter, [0]

    def reserve_and_count() -> int:
        count[0] += 1
        return reserve()  # type: ignore[no-any-return]

    atheris._reserve_counter = reserve_and_count
    # As ``instrument_imports``, without the tracing of comparisons: the mutations use no values of them.
    with atheris.import_hook.HookManager({"streamkit"}, set(), enable_loader_override=True, trace_dataflow=False):
        import streamkit

        for module in pkgutil.walk_packages(streamkit.__path__, "streamkit."):
            if ".cli" not in module.name and not module.name.endswith(("__main__", ".dbos", ".bridges.database")):
                importlib.import_module(module.name)
    return count


if __name__ == "__main__":
    main(Path(sys.argv[1]))
