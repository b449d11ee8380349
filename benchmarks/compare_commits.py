"""Whether the working tree reads streams as another commit does: every event, view, warning and limit.

    python -m benchmarks.compare_commits REVISION [--streams N] [--seed N] [--providers NAME,NAME]

For a change that must only be faster. The recorded streams of the tests, whole, frame by frame and cut at random, and
``N`` damaged ones (``tests/fuzz``) are fed to a ``Turn`` of both commits, some with limits, ``leaked_markup``, an early
end or an error of the transport, and some read at every delta. What each ``feed`` returns, the result as plain data and
what counts against the limits must be equal. The first differences are printed, and the exit code is 1.

Each commit runs in a process of its own. The inputs are made once, by the code of the working tree.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parent.parent
_MOST_SHOWN = 5  # streams that differ
_LIMITS: tuple[dict[str, int], ...] = (
    {"text": 3000},
    {"text": 1200},
    {"text": 30_000, "arguments": 500},
    {"arguments": 60},
    {"calls": 1},
    {"frame": 700},
    {"nesting": 4},
)


@dataclass(frozen=True)
class Input:
    """A stream and the options with which it is read.

    Attributes:
        provider: the provider of the turn.
        name: identifies the stream in the report.
        parts: the arguments of ``feed``.
        options: arguments of ``Turn``.
        limits: arguments of ``Limits``.
        views: after how many parts the views are read; 0: never.
        last: how many parts are fed.
        fails: whether the transport ends in an error.
    """

    provider: str
    name: str
    parts: list[Any]
    options: dict[str, Any] = dataclass_field(default_factory=dict)
    limits: dict[str, int] | None = None
    views: int = 0
    last: int | None = None
    fails: bool = False


def main(argv: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare_commits", description=__doc__)
    parser.add_argument("revision", help="the commit to compare with")
    parser.add_argument("--streams", type=int, default=10_000, help="how many damaged streams (default: 10,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the damage")
    parser.add_argument("--providers", default="", help="only these, separated by commas")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        base, inputs = Path(folder, "base"), Path(folder, "inputs")
        _git("worktree", "add", "--detach", "--force", str(base), options.revision)
        try:
            made = list(_make_inputs(options.streams, options.seed, set(filter(None, options.providers.split(",")))))
            sys.setrecursionlimit(20_000)  # some inputs are nested more deeply than pickle may follow
            inputs.write_bytes(pickle.dumps([vars(each) for each in made]))
            logs = [_run(tree, inputs, Path(folder, name)) for tree, name in ((base, "a"), (_ROOT, "b"))]
        finally:
            _git("worktree", "remove", "--force", str(base))
    different = [n for n, (one, other) in enumerate(zip(*logs, strict=True)) if one != other]
    for n in different[:_MOST_SHOWN]:
        _show_difference(made[n], logs[0][n], logs[1][n])
    print(f"{len(made):,} streams, {len(different)} of them differ from {options.revision}")
    sys.exit(bool(different))


def _git(*arguments: str) -> None:
    subprocess.run(["git", "-C", str(_ROOT), *arguments], check=True, capture_output=True)


def _run(tree: Path, inputs: Path, output: Path) -> list[list[str]]:
    """Read the inputs by the code of a tree; return the log of each, its long lines as digests."""
    subprocess.run([sys.executable, __file__, "--read", str(tree), str(inputs), str(output)], check=True)
    logs: list[list[str]] = pickle.loads(output.read_bytes())
    return logs


def _show_difference(stream: Input, one: list[str], other: list[str]) -> None:
    at = next((n for n, lines in enumerate(zip(one, other, strict=False)) if lines[0] != lines[1]), len(one))
    print(f"{stream.provider} {stream.name} {stream.options} {stream.limits or ''}: line {at} of its log")
    print("  before:", *one[at : at + 1])
    print("  after: ", *other[at : at + 1])


# ---------------------------------------------------------------- the inputs


def _make_inputs(count: int, seed: int, wanted: set[str]) -> Iterator[Input]:
    sys.path[:0] = [str(_ROOT / "tests")]
    from fuzz.inputs import sources
    from fuzz.mutations import mutate_chunks
    from shared_data import recorded_streams

    from benchmarks.recorded import split_reads

    chance = random.Random(seed)
    for stream in recorded_streams():
        if wanted and stream.provider not in wanted:
            continue
        data, name = stream.data, str(stream)
        frames = split_reads(stream.path.suffix, data)
        yield Input(stream.provider, f"{name}, in frames", frames)
        yield Input(stream.provider, f"{name}, in frames with views", frames, views=2)
        yield Input(stream.provider, f"{name}, whole", [data])
        yield Input(stream.provider, f"{name}, cut", _cut(data, chance, 300))
        yield Input(stream.provider, f"{name}, with markup", frames, {"leaked_markup": "recover"})
        yield _vary(Input(stream.provider, f"{name}, varied", frames), chance)
    by_provider: dict[str, list[Any]] = {}
    for source in sources():
        by_provider.setdefault(source.provider, []).append(source)
    names = sorted(wanted or by_provider)
    for number in range(count):
        provider = names[number % len(names)]
        source = chance.choice(by_provider[provider])
        parts = _encode(provider, mutate_chunks(source, chance), chance)
        if parts:
            yield _vary(Input(provider, f"{source.name}, damaged {number}", parts), chance)


def _encode(provider: str, chunks: list[Any], chance: random.Random) -> list[Any]:
    """Return chunks as dicts, or as reads of bytes; nothing if they cannot be written."""
    from streamkit import providers
    from streamkit.testing.case import encode_stream

    traits, form = providers.get(provider).traits, chance.random()
    if form < 0.15:
        return chunks
    try:
        whole = encode_stream(chunks, traits, end_marker=chance.choice((traits.end_marker, None)))
        reads = [encode_stream([chunk], traits, end_marker=None) for chunk in chunks]
    except (ValueError, TypeError, RecursionError):
        return []
    if form < 0.3:
        return _cut(whole, chance, chance.choice((20, 300)))
    reads.append(whole[sum(map(len, reads)) :])
    return reads if form < 0.75 else [b"".join(reads[at : at + 3]) for at in range(0, len(reads), 3)]


def _cut(data: bytes, chance: random.Random, size: int) -> list[bytes]:
    """Return data in reads of about that size."""
    cuts = sorted(chance.sample(range(len(data) + 1), min(len(data) // size + 1, len(data) + 1)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def _vary(stream: Input, chance: random.Random) -> Input:
    """Return the stream with options that are chosen at random; most have none."""
    options: dict[str, Any] = {}
    limits, kind = None, chance.random()
    if kind < 0.12:
        options["leaked_markup"] = chance.choice(("strip", "recover"))
    elif kind < 0.24:
        limits = chance.choice(_LIMITS)
    elif kind < 0.3:
        options["recover_trailing_junk"] = False
    if chance.random() > 0.06:
        options["turn_key"] = "turn-1"
    views = chance.choice((1, 3, 7)) if chance.random() < 0.25 else 0
    last = chance.randrange(len(stream.parts)) if chance.random() < 0.15 else None
    fails = chance.random() < 0.05
    return Input(stream.provider, stream.name, stream.parts, options, limits, views, last, fails)


# ---------------------------------------------------------------- reading, in the process of a commit


def _read_inputs(tree: str, inputs: str, output: str) -> None:
    sys.path[0] = tree
    logs = []
    for values in pickle.loads(Path(inputs).read_bytes()):
        log = [line if len(line) < 2000 else _digest(line) for line in _read(Input(**values))]
        logs.append(log if len(log) < 100 else [*log[:50], _digest("\n".join(log[50:]))])
    Path(output).write_bytes(pickle.dumps(logs))


def _digest(text: str) -> str:
    return f"{text[:500]} ... {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _read(stream: Input) -> Iterator[str]:
    """Yield the events of each part of the stream, and the result, as text."""
    from streamkit import Limits, Turn

    options = {"turn_key": None} | stream.options
    turn = Turn(stream.provider, limits=Limits(**stream.limits) if stream.limits else None, **options)
    try:
        for number, part in enumerate(stream.parts[: stream.last]):
            yield repr(turn.feed(part))
            if stream.views and number % stream.views == 0:
                yield repr((turn.text, turn.reasoning, turn.calls, turn.server_calls, turn.usage, turn.warnings))
                yield repr((turn.done, turn.completed_call(0)))
        yield repr(turn.close(ConnectionError("reset") if stream.fails else None))
        yield json.dumps(turn.to_dict())
        yield repr((turn.metadata, turn._state.size))
        yield repr(turn.content)
    except Exception as error:
        yield f"raised {type(error).__name__}: {error}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        _read_inputs(*sys.argv[2:])
    else:
        main()
