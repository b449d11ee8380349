"""The checks of ``.ci/run`` have every extra of ``pyproject.toml``, so that no test is skipped there for a package."""

from __future__ import annotations

import re
import tomllib

import pytest
from hypothesis import settings
from optional_packages import DISTRIBUTIONS
from shared_data import ROOT

SCRIPT = ROOT / ".ci" / "run"
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]


def with_contained(extras: set[str]) -> set[str]:
    """Return extras with those that they contain."""
    for extra in list(extras):
        for requirement in EXTRAS[extra]:
            if contained := re.fullmatch(r"streamkit\[(.+)\]", requirement):
                extras |= with_contained(set(contained[1].split(",")))
    return extras


@pytest.mark.skipif(not SCRIPT.exists(), reason="a source distribution does not contain .ci")
def test_every_extra_is_installed_and_peers_in_an_environment_of_their_own() -> None:
    installed = dict(re.findall(r'"?(\S+?)/bin/pip"? install --quiet -e \'\.\[(.+)\]\'', SCRIPT.read_text("utf-8")))
    assert with_contained(set(installed[".venv"].split(","))) == set(EXTRAS) - {"peers"}
    assert "peers" in installed["$scratch/peers"].split(",")


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
    assert "python -m tests.fuzz --minutes 2\n" in every
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
