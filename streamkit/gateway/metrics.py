"""Metrics of a gateway for Prometheus (``/metrics``), by prometheus-client: the extra ``metrics``.

No client can create series: names of keys are those of the file, and a model is a label if the upstreams name it, or if
a response of that model has succeeded, up to 100 of these; any other one is ``other``. All labels are below.

With several workers, prometheus-client keeps the values in files of ``PROMETHEUS_MULTIPROC_DIR``, which must be set
when it is imported, and each worker responds for all (https://prometheus.github.io/client_python/multiprocess/).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from contextlib import suppress

import anyio

from streamkit.gateway.upstream import ANY_MODEL, Exchange, Upstream
from streamkit.values.distribution import missing_package

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.multiprocess import MultiProcessCollector
except ModuleNotFoundError as error:
    if error.name != "prometheus_client":
        raise
    raise missing_package("streamkit.gateway with metrics", error, "metrics") from None

__all__ = ["Metrics"]

_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
_OTHER = "other"
_TRIES, _BETWEEN_TRIES = 20, 0.02  # seconds
_MOST_MODELS = 100  # beside those that the upstreams name
_LONGEST_NAME = 100  # characters of a label
_ASKED = ("upstream", "provider", "model")  # the number of the upstream, its provider and its model; "" for none
_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 6.0, 12.0, 25.0, 50.0, 100.0)
_TOKENS = ("input", "output", "reasoning", "cache_read", "cache_write")  # as `Usage` has them


class Metrics:
    """The metrics of one gateway.

    Args:
        upstreams: those of the gateway, whose models are labels.
    """

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        self._named = {name for each in upstreams for pair in each.targets().items() for name in pair} - {ANY_MODEL}
        self._seen: set[str] = set()
        self._registry = registry = CollectorRegistry()
        if _DIRECTORY not in os.environ:
            ProcessCollector(registry=registry)
        prefix = "streamkit_gateway"

        def count(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{prefix}_{name}", text, labels, registry=registry)

        self._requests = count("requests", "Requests that have ended.", "client", "key", "status", *_ASKED)
        self._errors = count("errors", "Errors by code, also of upstreams before another one.", "code", *_ASKED[:2])
        self._tokens = count(
            "tokens", "Tokens of responses; cached and reasoning ones count twice.", "kind", "key", *_ASKED
        )
        self._cost = count("cost_dollars", "What responses cost, as far as it is known.", "key", *_ASKED)
        self._unpriced = count("unpriced", "Responses with tokens whose cost is not known.", *_ASKED)
        self._first_byte = Histogram(
            f"{prefix}_first_byte_seconds",
            "The time from a request to the first byte of its response.",
            _ASKED,
            registry=registry,
            buckets=_SECONDS,
        )
        self.open: Gauge = Gauge(
            f"{prefix}_open_requests", "Requests that are served.", registry=registry, multiprocess_mode="livesum"
        )

    def end(self, exchange: Exchange) -> None:
        """Count an exchange that has ended."""
        self.open.dec()
        number = str(exchange.upstream or "")
        asked = number, exchange.provider or "", self._model(exchange)
        key, usage = exchange.key or "", exchange.usage
        self._requests.labels(exchange.client, key, str(exchange.status), *asked).inc()
        if exchange.first_byte is not None:
            self._first_byte.labels(*asked).observe(exchange.first_byte)
        for upstream, provider, code in exchange.error_codes:
            self._errors.labels(code, str(upstream), provider).inc()
        if exchange.disconnected:
            self._errors.labels("client_disconnected", *asked[:2]).inc()
        elif exchange.error is not None and not any(each[0] == exchange.upstream for each in exchange.error_codes):
            self._errors.labels(f"status_{exchange.status}", *asked[:2]).inc()
        if usage is not None:
            for kind in _TOKENS:
                self._tokens.labels(kind, key, *asked).inc(max(getattr(usage, f"{kind}_tokens") or 0, 0))
            if exchange.cost is None:
                self._unpriced.labels(*asked).inc()
            else:
                self._cost.labels(key, *asked).inc(max(exchange.cost, 0.0))

    def _model(self, exchange: Exchange) -> str:
        """Return the model as a label."""
        model = exchange.upstream_model
        if model is None or model in self._named or model in self._seen:
            return model or ""
        if exchange.status == 200 and exchange.error is None and exchange.usage is not None:
            if len(self._seen) < _MOST_MODELS and len(model) <= _LONGEST_NAME:
                self._seen.add(model)
                return model
        return _OTHER

    async def expose(self, accept: str) -> tuple[bytes, str] | None:
        """Return the metrics of all workers, and their content type; None if they cannot be read now.

        A worker that starts makes its files, which are empty for a moment (`MmapedDict` of prometheus-client).

        Args:
            accept: the header of the request.
        """
        registry = self._registry
        if _DIRECTORY in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        encode, content_type = choose_encoder(accept)
        for _ in range(_TRIES):
            with suppress(struct.error):
                return encode(registry), content_type
            await anyio.sleep(_BETWEEN_TRIES)
        return None
