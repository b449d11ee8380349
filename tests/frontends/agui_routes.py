"""The routes of the application for AG-UI."""

from __future__ import annotations

from starlette.routing import Route

routes: list[Route] = []
