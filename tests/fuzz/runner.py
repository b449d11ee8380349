"""The command: run the targets for a time or a number of inputs, print what was found, and write each finding."""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fuzz.inputs import Input
from fuzz.minimize import minimize
from fuzz.report import Report, examine_within
from fuzz.targets import TARGETS, Finding, damaged, examine, seeds, stored_inputs

__all__ = ["main", "run_blind"]

ROOT = Path(__file__).resolve().parent.parent.parent
_COVERED = re.compile(rb"\bcov: (\d+)")
_MOST_CRASHES = 10


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return 1 if there was a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, help="how long (default: 1, without --inputs)")
    parser.add_argument("--inputs", type=int, help="how many inputs")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="only this target; repeatable")
    parser.add_argument("--seed", type=int, default=0, help="of all choices")
    parser.add_argument("--blind", action="store_true", help="without coverage guidance")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "fuzz", help="where findings are written")
    parser.add_argument("--replay", type=Path, nargs="+", help="feed the inputs of these files, and nothing else")
    parser.add_argument("--keep", action="store_true", help="add what new inputs reach to tests/fuzz/corpus")
    options = parser.parse_args(argv)
    report = Report()
    if options.replay:
        for path in options.replay:
            for line in path.read_bytes().splitlines():
                given = Input.from_json(line)
                if given is not None:
                    examine_within(given, report)
        return _show(report, options.folder, is_minimized=False)
    targets = options.target or [name for name, target in TARGETS.items() if not target.is_slow]
    minutes = options.minutes if options.minutes is not None or options.inputs else 1.0
    seconds = None if minutes is None else 60 * minutes
    if options.blind or importlib.util.find_spec("atheris") is None:
        if not options.blind:
            print("skipped: atheris is not installed (extra 'fuzz', Python 3.11); inputs are not guided by coverage")
        run_blind(report, targets, options.seed, seconds, options.inputs)
    else:
        _run_guided(report, targets, options, seconds)
    return _show(report, options.folder, is_minimized=True)


def run_blind(report: Report, targets: list[str], seed: int, seconds: float | None, inputs: int | None) -> None:
    """Feed damaged inputs of the targets in turn, each made of an undamaged one or of the one before it."""
    chance = random.Random(seed)
    until = None if seconds is None else time.monotonic() + seconds
    pools = {name: [*seeds(name), *stored_inputs(name)] for name in targets}
    last = {name: pools[name][0] for name in targets}
    while (until is None or time.monotonic() < until) and (inputs is None or report.total < inputs):
        name = targets[report.total % len(targets)]
        start = last[name] if chance.random() < 0.5 else chance.choice(pools[name])
        given = damaged(start, chance)
        try:
            size = len(given.to_json())
        except (ValueError, RecursionError):  # values within values
            size = 1 << 30
        last[name] = given if size < 40_000 else chance.choice(pools[name])
        examine_within(last[name], report)


def _run_guided(report: Report, targets: list[str], options: argparse.Namespace, seconds: float | None) -> None:
    """Run atheris in a process; if that crashes, the input is a finding, and another process goes on."""
    until = None if seconds is None else time.monotonic() + seconds
    for attempt in range(_MOST_CRASHES):
        left = None if until is None else until - time.monotonic()
        if (left is not None and left < 5) or (options.inputs is not None and report.total >= options.inputs):
            break
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            wanted = None if options.inputs is None else options.inputs - report.total
            plan = {"targets": targets, "seconds": left, "inputs": wanted, "seed": options.seed + attempt}
            (folder / "plan.json").write_text(json.dumps(plan), "utf-8")
            started = _write_corpus(folder / "corpus", targets, options.seed, seconds)
            with (folder / "log").open("wb") as log:
                command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz.guided", name]
                subprocess.run(command, cwd=ROOT, stderr=log, stdout=log, check=False)
            output = (folder / "log").read_bytes()
            is_whole = report.merge(folder / "report.json")
            report.covered = max([report.covered, *map(int, _COVERED.findall(output))])
            if options.keep:
                _keep(folder / "corpus", started)
            if is_whole:
                return
            current = folder / "current.json"
            crashed = Input.from_json(current.read_bytes()) if current.exists() else None
            if crashed is None:
                raise SystemExit(f"the process of atheris has failed:\n{output[-2000:].decode('utf-8', 'replace')}")
            report.add(
                Finding(crashed.target, "crash", crashed.provider), crashed, output[-2000:].decode("utf-8", "replace")
            )


def _write_corpus(folder: Path, targets: list[str], seed: int, seconds: float | None) -> set[str]:
    """Write the inputs to start from: the corpus, and as many undamaged ones as the time is for; return their names."""
    chance = random.Random(seed)
    folder.mkdir()
    most = 100_000 if seconds is None else max(20, int(seconds / 3))
    names = set()
    for name in targets:
        found = list(seeds(name))
        for given in [*stored_inputs(name), *chance.sample(found, min(most, len(found)))]:
            data = given.to_json()
            names.add(path := hashlib.sha256(data).hexdigest()[:20])
            (folder / path).write_bytes(data)
    return names


def _keep(folder: Path, started: set[str]) -> None:
    """Add the new inputs of a run to the corpus, as far as they reach what it does not."""
    from fuzz.corpus_size import add_to_corpus

    added = [Input.from_json(path.read_bytes()) for path in sorted(folder.iterdir()) if path.name not in started]
    print("\n".join(add_to_corpus([given for given in added if given is not None])))


def _show(report: Report, folder: Path, *, is_minimized: bool) -> int:
    print("\n".join(report.lines()))
    for note, document in report.notes.items():
        print(f"reported: {note}: {document[:300]}")
    for number, (finding, (count, given, detail)) in enumerate(report.findings.items()):
        folder.mkdir(parents=True, exist_ok=True)
        smallest = given
        if is_minimized and finding.kind not in ("crash", "hang"):
            smallest = minimize(given, finding)
        detail = examine(smallest)[1] if finding.kind not in ("crash", "hang") else detail
        stem = f"{finding.target}-{finding.kind}-{hashlib.sha256(finding.where.encode()).hexdigest()[:8]}"
        (folder / f"{stem}.found.json").write_bytes(given.to_json() + b"\n")
        path = folder / f"{stem}.json"
        path.write_bytes(smallest.to_json() + b"\n")
        lines = detail.strip().splitlines() or [""]
        print(f"\nfinding {number + 1}: {finding.target}: {finding.kind}: {finding.where} ({count} inputs)")
        print(f"  {lines[-1][:400]}\n  {smallest.to_json().decode()[:600]}\n  {path}")
    return 1 if report.findings else 0
