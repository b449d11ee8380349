"""The command ``streamkit key``: a key for a client, and its table."""

from __future__ import annotations

import re
import tomllib

import pytest

from streamkit.cli import main
from streamkit.gateway.access import hash_key, read_keys


def test_a_key_and_the_table_with_its_hash(capsys, tmp_path):
    path = tmp_path / "keys.toml"
    keys = []
    for arguments in (["ann"], ["bob@x", "--model", "claude-*", "--model", 'odd"name', "--metrics"]):
        assert main(["key", *arguments]) == 0
        shown = capsys.readouterr()
        with path.open("a") as file:
            file.write(shown.out)
        (key,) = re.findall(r"which is shown only now: (sk-gateway-[\w-]{43})\n", shown.err)
        assert key not in shown.out
        keys.append(key)
    ann, bob = read_keys(path)
    assert (ann.name, ann.hash, ann.models, ann.metrics) == ("ann", hash_key(keys[0]), None, False)
    assert (bob.name, bob.hash, bob.models, bob.metrics) == ("bob@x", hash_key(keys[1]), ["claude-*", 'odd"name'], True)
    assert keys[0] != keys[1]
    assert len(tomllib.loads(path.read_text())["key"]) == 2


@pytest.mark.parametrize("name", ["", "a b", "x" * 101])
def test_a_name_that_the_gateway_refuses_is_refused(capsys, name):
    assert main(["key", name]) == 2
    shown = capsys.readouterr()
    assert "name must be a text of at most 100 letters, digits and the marks . @ + - _" in shown.err
    assert "sk-gateway-" not in shown.out + shown.err
