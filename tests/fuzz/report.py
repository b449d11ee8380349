"""What a run of the fuzzer has found: counts by target, findings, and sentences on slow inputs."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from fuzz.inputs import Input
from fuzz.targets import TARGETS, Finding, Hang, examine

__all__ = ["Report", "examine_within"]

_LONGEST = 20.0  # seconds of the process's own time for one input
_MOST_NOTES = 20


class Report:
    """The result of a run; a process without an end saves it at each finding.

    Attributes:
        inputs: how many inputs each target got.
        findings: the number, the shortest input and its details, by finding.
        notes: sentences on inputs that are no failures.
        edges: how many branches were counted; 0 without coverage.
        covered: how many of them were reached.
        is_whole: whether the run ended by itself.
        is_changed: whether there is a finding that was not saved.
    """

    def __init__(self) -> None:
        self.inputs: Counter[str] = Counter()
        self.findings: dict[Finding, tuple[int, Input, str]] = {}
        self.notes: dict[str, str] = {}
        self.edges = self.covered = 0
        self.is_whole = self.is_changed = False

    @property
    def total(self) -> int:
        """The number of inputs."""
        return self.inputs.total()

    def add(self, finding: Finding, given: Input, detail: str) -> None:
        """Count a finding; keep its shortest input."""
        number, kept, text = self.findings.get(finding, (0, given, detail))
        if number == 0 or len(given.to_json()) < len(kept.to_json()):
            kept, text, self.is_changed = given, detail, True
        self.findings[finding] = number + 1, kept, text

    def save(self, path: Path) -> None:
        """Write the report as JSON, which ``merge`` reads."""
        self.is_changed = False
        findings = [
            [vars(finding), number, given.to_json().decode(), text]
            for finding, (number, given, text) in self.findings.items()
        ]
        data = {"inputs": self.inputs, "findings": findings, "notes": self.notes, "edges": self.edges}
        path.write_text(json.dumps({**data, "is_whole": self.is_whole}), "utf-8")

    def merge(self, path: Path) -> bool:
        """Add what a process has saved; return whether it ended by itself."""
        if not path.exists():
            return False
        data: dict[str, Any] = json.loads(path.read_text("utf-8"))
        self.inputs.update(data["inputs"])
        self.notes.update(data["notes"])
        self.edges = max(self.edges, data["edges"])
        for fields, number, document, text in data["findings"]:
            finding, given = Finding(**fields), Input.from_json(document.encode())
            assert given is not None
            self.add(finding, given, text)
            _, kept, detail = self.findings[finding]
            self.findings[finding] = self.findings[finding][0] + number - 1, kept, detail
        return bool(data["is_whole"])

    def lines(self) -> list[str]:
        """Return the table of the run and its sums."""
        kinds = ("exception", "disagreement", "unended")
        header = f"{'target':16} {'inputs':>9}" + "".join(f"{name:>14}" for name in (*kinds, "other"))
        lines = [header]
        for name in [*(name for name in TARGETS if self.inputs[name]), "all"]:
            counts = Counter(
                finding.kind if finding.kind in kinds else "other"
                for finding in self.findings
                for _ in range(self.findings[finding][0])
                if name in ("all", finding.target)
            )
            inputs = self.total if name == "all" else self.inputs[name]
            lines.append(f"{name:16} {inputs:>9,}" + "".join(f"{counts[kind]:>14,}" for kind in (*kinds, "other")))
        reached = f"{self.covered:,} of {self.edges:,} branches" if self.edges else "not measured"
        return [*lines, f"coverage: {reached}; findings: {len(self.findings)}"]


def examine_within(given: Input, report: Report, current: Path | None = None) -> Finding | None:
    """Examine an input within a limit of the process's own time, and report what comes of it.

    Args:
        given: the input.
        report: receives the finding.
        current: where the input is kept meanwhile, so that it is known if the process crashes.
    """
    if current is not None:
        current.write_bytes(given.to_json())
    report.inputs[given.target] += 1
    signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST)
    try:
        finding, detail, notes = examine(given)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    for note in notes:
        if len(report.notes) < _MOST_NOTES:
            report.notes.setdefault(note, given.to_json().decode())
    if finding is not None:
        report.add(finding, given, detail)
    return finding


def _raise_hang(*_: object) -> None:
    raise Hang


signal.signal(signal.SIGVTALRM, _raise_hang)
