"""Test data: paths, and the recorded streams.

The repository contains a small selection of recorded streams (``tests/recorded``). A larger collection, ``SHARED``, is
not part of the repository: it may be found next to the checkout. Tests of recorded streams use both. A test that needs
``SHARED`` is skipped if it does not exist, with a reason that names the path.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
CONFORMANCE_CASES = TESTS / "conformance" / "cases"
RECORDED = TESTS / "recorded"

SHARED = ROOT.parent / "shared"
CAPTURES = SHARED / "captures"
CASES_FILE = SHARED / "cases" / "cases.jsonl"
VECTORS = SHARED / "vectors"

#: The provider of a folder of ``CAPTURES``, if the folder does not have its name.
PROVIDERS = {
    "anthropic_messages": "anthropic",
    "cohere_v2": "cohere",
    "groq_chat": "groq",
    "mistral_chat": "mistral",
    "other_openai_compat": "openai_compatible",
}


@dataclass(frozen=True)
class RecordedStream:
    """One recorded response.

    Attributes:
        provider: the streamkit provider that reads it.
        path: the file with its bytes.
        expected: text, reasoning, refusal, calls and finish, read from the bytes by other programs; None in ``SHARED``.
    """

    provider: str
    path: Path
    expected: dict[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.provider}/{self.path.stem}"

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()


@cache
def all_recorded_streams() -> tuple[RecordedStream, ...]:
    """Return the streams of the repository, and those of ``SHARED`` that are not among them."""
    entries = json.loads((RECORDED / "manifest.json").read_text("utf-8"))
    streams = [RecordedStream(e["file"].split("/")[0], RECORDED / e["file"], e["expected"]) for e in entries]
    copied = {entry["sha256"] for entry in entries}
    if CAPTURES.is_dir():
        streams += [
            RecordedStream(PROVIDERS.get(path.parent.name, path.parent.name), path)
            for path in sorted(CAPTURES.glob("*/*"))
            if hashlib.sha256(path.read_bytes()).hexdigest() not in copied
        ]
    return tuple(streams)


def recorded_streams(provider: str | None = None, suffix: str | None = None) -> list[RecordedStream]:
    """Return the recorded streams, optionally those of one provider and of one kind of file (such as ``.sse``)."""
    return [
        stream
        for stream in all_recorded_streams()
        if provider in (None, stream.provider) and suffix in (None, stream.path.suffix)
    ]
