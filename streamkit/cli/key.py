"""Make a key for a client of the gateway, and its table for a file of keys.

The key is printed to standard error, once and nowhere else; the table, which has its hash alone, to standard output:

  streamkit key ann --model 'claude-*' --model gpt-5 >> keys.toml
  streamkit gateway --provider anthropic --keys keys.toml

A gateway that runs reads the file again at SIGHUP (kill -HUP, systemctl reload).
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys

__all__ = ["configure", "run"]

_PREFIX = "sk-gateway-"  # masked wherever keys are


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("name", metavar="NAME", help="the name of the key in logs and metrics")
    parser.add_argument(
        "--model",
        action="append",
        metavar="PATTERN",
        help="a model that the key may ask, with * for any text; repeat it for more (all models)",
    )
    parser.add_argument("--metrics", action="store_true", help="the key may read /metrics as well")


def run(options: argparse.Namespace) -> int:
    """Print the key and its table."""
    from streamkit.gateway.access import hash_key, read_keys

    key = _PREFIX + secrets.token_urlsafe(32)
    lines = ["[[key]]", f"name = {json.dumps(options.name)}", f'hash = "{hash_key(key)}"']
    lines += [] if options.model is None else [f"models = {json.dumps(options.model)}"]
    lines += ["metrics = true"] if options.metrics else []
    table = "\n".join(lines) + "\n"
    read_keys("the file", table)  # refuses a name that the gateway refuses
    print(table)
    print(f"the key of {options.name}, which is shown only now: {key}", file=sys.stderr)
    return 0
