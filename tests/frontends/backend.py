"""What the routes of the application share: its clients, its stores and the runs that it makes now."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx

from streamkit.bridges.event_log import LiveRuns
from streamkit.bridges.run_store import RunStore


@dataclass
class Backend:
    """What the routes share.

    Attributes:
        http: the client of the model's server.
        upstream: the base URL of that server.
        store: the entries of runs, which outlive the process: ``store.claim(run_key)``.
        runs: the runs that this process makes, and their logs.
        effects: what the tools have done, in order.
    """

    http: httpx.AsyncClient
    upstream: str
    store: RunStore
    runs: LiveRuns
    effects: list[dict[str, Any]] = field(default_factory=list)
