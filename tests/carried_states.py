"""A key of carried state for tests, and what the gateway reads with it."""

from __future__ import annotations

from streamkit.gateway.translation.state_text import StateReader, StateSettings, UpstreamState

KEY = b"a key of sixteen bytes or more"
SETTINGS = StateSettings(KEY, 32 * 1024 * 1024)


def unwrap_state(text: str, settings: StateSettings = SETTINGS) -> UpstreamState | None:
    """Return the state that a text contains; None if it is none of this key."""
    return StateReader(settings).read(text)
