"""A run with traces and metrics, as a program makes one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamkit import Run, run_loop
from streamkit.bridges.otel import Telemetry

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from streamkit import CreateStream


async def traced(
    create_new_stream: CreateStream,
    *,
    tracer_provider: TracerProvider | None,
    meter_provider: MeterProvider | None,
    agent_name: str,
    capture_content: bool = False,
    **options: Any,
) -> Run[Any]:
    """Run one loop with the options of ``run_loop``, and read it to its end.

    Returns:
        The run, which has ended.
    """
    telemetry = Telemetry(
        tracer_provider=tracer_provider, meter_provider=meter_provider, capture_content=capture_content
    )
    return await run_loop(create_new_stream, **options).observe(telemetry.agent(agent_name))
