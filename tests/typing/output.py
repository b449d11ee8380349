"""Structured output as a type checker sees it. Not meant to be executed: mypy checks it."""

from __future__ import annotations

from typing import Any, assert_type

from pydantic import BaseModel, TypeAdapter

from streamkit import Content, Event, Growing, InvalidOutput, Retries, RoundContext, render_request, run_loop
from streamkit.execution import Run
from streamkit.output import Change


class Recipe(BaseModel):
    name: str


def a_growing_output(event: Event) -> None:
    recipe = Growing(Recipe)
    assert_type(recipe, Growing[Recipe])
    assert_type(recipe.feed("{"), list[Change])
    assert_type(recipe.handle(event), list[Change])
    assert_type(recipe.partial, Recipe | None)
    assert_type(recipe.close(), Recipe)
    assert_type(recipe.is_complete, bool)
    assert_type(Growing(list[int]).close(), list[int])
    adapter: TypeAdapter[int | str] = TypeAdapter(int | str)
    assert_type(Growing(adapter).close(), int | str)
    assert_type(Growing({"type": "object"}, tool="search").close(), Any)
    assert_type(Growing().close(), Any)
    for change in recipe.feed("}"):
        assert_type(change.path, tuple[str | int, ...])
        assert_type(change.value, Any)
    try:
        recipe.close()
    except InvalidOutput as error:
        assert_type(error.text, str)


async def a_run(contents: list[Content]) -> None:
    def ask(context: RoundContext) -> list[bytes]:
        return []

    run = await run_loop(
        ask,
        provider="openai_chat",
        history=contents,
        output=Recipe,
        retries=Retries(requests=2, output=2),
    )
    assert_type(run, Run[Recipe])
    assert_type(run.output, Recipe | None)
    async with run_loop(ask, provider="openai_chat", history=contents, output=list[Recipe]) as watched:
        assert_type(watched.output, list[Recipe] | None)
    adapter: TypeAdapter[int | str] = TypeAdapter(int | str)
    assert_type(run_loop(ask, provider="openai_chat", history=contents, output=adapter).output, int | str | None)
    untyped = run_loop(ask, provider="openai_chat", history=contents, output={"type": "object"}).run_sync()
    assert_type(untyped.output, Any | None)
    plain = run_loop(ask, provider="openai_chat", history=contents)
    assert_type(plain, Run)
    assert_type(render_request(contents, "anthropic", output=Recipe, cache="auto"), dict[str, Any])
    assert_type(render_request(contents, "anthropic", cache={"ttl": "1h"}), dict[str, Any])
