"""The checks of ``.ci/run`` have every extra of ``pyproject.toml``, so that no test is skipped there for a package.

What it installs is locked: exact versions with their hashes, and no script of a package runs.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import settings
from optional_packages import DISTRIBUTIONS
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from shared_data import ROOT

SCRIPT = ROOT / ".ci" / "run"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
LOCK = (
    [line for line in (ROOT / ".ci/requirements.txt").read_text("utf-8").splitlines() if not line.startswith("#")]
    if SCRIPT.exists()
    else []
)


def with_contained(extras: set[str]) -> set[str]:
    """Return extras with those that they contain."""
    for extra in list(extras):
        for requirement in EXTRAS[extra]:
            if contained := re.fullmatch(r"streamkit-llm\[(.+)\]", requirement):
                extras |= with_contained(set(contained[1].split(",")))
    return extras


@pytest.mark.skipif(not SCRIPT.exists(), reason="a source distribution does not contain .ci")
def test_every_extra_is_installed_and_peers_in_an_environment_of_their_own() -> None:
    script = SCRIPT.read_text("utf-8")
    assert ".venv/bin/pip install --quiet --require-hashes -r .ci/requirements.txt" in script
    locked = [Requirement(line.rstrip(" \\")) for line in LOCK if line[0].isalnum()]
    wanted = [
        Requirement(line)
        for extra, listed in EXTRAS.items()
        if extra != "peers"
        for line in listed
        if not line.startswith("streamkit-llm[")
    ]
    for requirement in [*wanted, *map(Requirement, PROJECT["dependencies"])]:
        versions = [each.specifier for each in locked if canonicalize_name(each.name) == requirement.name]
        assert versions, requirement
        assert all(requirement.specifier.contains(str(each).removeprefix("==")) for each in versions), requirement
    installed = dict(re.findall(r'"?(\S+?)/bin/pip"? install --quiet -e \'\.\[(.+)\]\'', script))
    assert "peers" in installed["$scratch/peers"].split(",")


@pytest.mark.skipif(not SCRIPT.exists(), reason="a source distribution does not contain .ci")
def test_every_version_has_hashes_and_no_index_is_named() -> None:
    for line, following in zip(LOCK, [*LOCK[1:], ""], strict=True):
        if line[0].isalnum():
            assert re.match(r"[\w.-]+==[\w.]+( ; .+)? \\$", line), line
            assert following.startswith("    --hash=sha256:"), line
        else:
            assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line), line


@pytest.mark.skipif(not SCRIPT.exists(), reason="a source distribution does not contain .ci")
def test_the_check_of_other_libraries_can_fail_and_only_for_our_reasons() -> None:
    script = SCRIPT.read_text("utf-8")
    check = script.partition("\nother_libraries() {\n")[2].partition("\n}\n")[0]
    assert "--constraint .ci/peers.txt" in check
    assert "||" not in check
    pinned = re.findall(r"^([\w-]+)==[\d.]+$", (ROOT / ".ci/peers.txt").read_text("utf-8"), flags=re.MULTILINE)
    assert {re.split(r"[\[>]", requirement)[0] for requirement in EXTRAS["peers"]} <= set(pinned)


@pytest.mark.skipif(not SCRIPT.exists(), reason="a source distribution does not contain .ci")
def test_what_the_readme_command_leaves_out_is_run() -> None:
    assert '-m "slow or hypothesis" --hypothesis-profile full' in SCRIPT.read_text("utf-8")
    assert settings.get_profile("full").max_examples >= 200


@pytest.mark.skipif(not SCRIPT.exists(), reason="a source distribution does not contain .ci")
def test_the_fuzzer_runs_for_every_change_and_longer_before_a_release() -> None:
    every, _, before_a_release = SCRIPT.read_text("utf-8").partition("\nfull_checks() {\n")
    assert re.search(r"PYTHONHASHSEED=0 \S+ -m tests\.fuzz --minutes 5 --inputs \d{4,}\n", every)
    assert "python -m tests.fuzz --minutes 60 " in before_a_release


def test_a_test_may_be_skipped_for_the_packages_of_dev_alone() -> None:
    names = {
        extra: {
            re.split(r"[\[>]", requirement)[0]
            for contained in with_contained({extra})
            for requirement in EXTRAS[contained]
        }
        for extra in ("dev", "suite")
    }
    assert set(DISTRIBUTIONS.values()) == names["dev"] - names["suite"]


PACKAGES = [
    path
    for folder in ("tests", "benchmarks")
    for path in sorted((ROOT / folder).rglob("package.json"))
    if "node_modules" not in path.parts
]


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.name)
def test_packages_of_npm_are_locked(path: Path) -> None:
    package = json.loads(path.read_text("utf-8"))
    wanted = {**package.get("dependencies", {}), **package.get("optionalDependencies", {})}
    is_exact = re.compile(r"(npm:[\w@/-]+@)?[\d.]+").fullmatch
    assert {name: version for name, version in wanted.items() if not is_exact(version)} == {}
    assert "scripts" not in package
    lock = json.loads(path.with_name("package-lock.json").read_text("utf-8"))["packages"]
    root = lock.pop("")
    assert {**root.get("dependencies", {}), **root.get("optionalDependencies", {})} == wanted
    assert len(lock) >= len(wanted)
    for name, locked in lock.items():
        assert locked["integrity"].startswith("sha512-"), name
        assert locked.get("resolved", "https://registry.npmjs.org/").startswith("https://registry.npmjs.org/"), name


@pytest.mark.skipif(not SCRIPT.exists(), reason="a source distribution does not contain .ci")
def test_no_script_of_a_package_of_npm_runs() -> None:
    assert len(PACKAGES) == 4
    lines = [line for line in SCRIPT.read_text("utf-8").splitlines() if re.search(r"\bnpm (ci|install|i|add)\b", line)]
    commands = [line for line in lines if "echo" not in line]
    assert len(commands) == 3
    assert [line for line in commands if not re.search(r"npm (ci|install) --ignore-scripts ", line)] == []
