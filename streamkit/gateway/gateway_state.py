"""What all requests of a gateway share: its upstreams, limits and keys, the store, and the requests that are open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from streamkit.gateway.access import Access
from streamkit.gateway.bodies import Bodies, GatewayLimits
from streamkit.gateway.model_lists import ModelLists
from streamkit.gateway.routing import Cooldowns, Router
from streamkit.gateway.stores.store import OwnEntries, Store
from streamkit.gateway.translation.state_text import StateSettings
from streamkit.gateway.upstream import Observer, Upstream
from streamkit.reading.turn import Turn
from streamkit.values.redaction import redact

__all__ = ["GatewayState", "Price"]

#: Returns US dollars for a response, as `Budget.price`.
Price: TypeAlias = Callable[[Turn], float | None]


@dataclass(slots=True)
class GatewayState:
    """What all requests of a gateway share: the arguments of `Gateway`, and its state.

    Attributes:
        store: what later requests of clients refer to.
        carried: the keys and the limit of carried state.
        bodies: the bodies of the requests that have not ended.
        access: who may ask; None for everybody.
        entries: those of the clients in the store, without keys or with the only one.
        strict: a request whose meaning would change is refused.
        has_state_key: the keys of ``carried`` are those of the gateway; else the store has one, or gets it.
        price: returns the cost of a response; None for costs that are not asked.
        open_requests: the services whose response has not ended.
    """

    upstreams: Sequence[Upstream]
    key: str | None
    limits: GatewayLimits
    access: Access | None
    observer: Observer | None
    store: Store
    carried: StateSettings
    bodies: Bodies
    entries: OwnEntries
    router: Router
    lists: ModelLists
    cooldowns: Cooldowns
    has_state_key: bool
    strict: bool
    price: Price | None
    open_requests: set[object] = field(default_factory=set)

    async def load_state_key(self) -> None:
        """Get the key that signs carried state from the store, where all workers have the same.

        Raises:
            StoreUnavailable: the store does not respond.
        """
        self.carried.keys = [await self.entries.add("state_key", self.carried.keys[0])]
        self.has_state_key = True

    def clean(self, text: str) -> str:
        """Return a text without the secrets of the upstreams and without the required key."""
        for upstream in self.upstreams:
            text = upstream.clean(text)
        return redact(text.replace(self.key, "***") if self.key else text)
