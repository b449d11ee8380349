"""Markup becomes a call only of an offered tool, and only of the families of the provider's models."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from reading.leaked_markup.markup_samples import FAMILIES, chat_turn, split_text, warning_codes
from wire_streams import chat

from streamkit import Turn, UsageError, providers
from streamkit.calls import ALL_MARKUP_FAMILIES, MarkupFamily
from streamkit.providers import dialect
from streamkit.reading.leaked_markup.lexer import Lexer, Tag

INNER = '<tool_call>{"name": "look_up", "arguments": {}}</tool_call>'


def offered_turn(text: str, tools: Any, size: int = 10_000, mode: Any = "recover", provider: Any = None) -> Turn:
    turn = Turn(provider or "openai_compatible", turn_key="k", leaked_markup=mode, tools=tools)
    for delta in split_text(text, size):
        turn.feed(chat({"content": delta}))
    turn.feed(chat({}, "stop"))
    turn.close()
    return turn


@pytest.mark.parametrize("mode", ["recover", "strip"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_call_of_a_tool_that_was_not_offered_stays_text(family: str, mode: str) -> None:
    text = f"A.\n{FAMILIES[family]}" + ("" if "without its end" in family else "\nB.")
    not_offered: list[Any] = [[], ["other", "look"], ("LOOK_UP",)]
    for tools, size in itertools.product(not_offered, (1, 4, 10_000)):
        turn = offered_turn(text, tools, size, mode)
        assert (turn.text, turn.calls) == (text, []), tools
        assert warning_codes(turn) == ["broken_markup"]
        assert "'look_up'" in turn.warnings[0].message


@pytest.mark.parametrize("family", FAMILIES)
def test_a_call_of_an_offered_tool_is_recovered(family: str) -> None:
    assert len(offered_turn(FAMILIES[family], {"look_up": 1}).calls) == 1
    assert len(offered_turn(FAMILIES[family], None).calls) == 1


@pytest.mark.parametrize(
    "text",
    [
        f"<function=write>\n<parameter=text>\n{INNER}\n</parameter>\n</function>",
        '<|DSML|invoke name="write"><|DSML|parameter name="text" string="true">'
        f"{INNER}</|DSML|parameter></|DSML|invoke>",
        '<tool_call>{"name": "write", "arguments": {"text": "' + INNER.replace('"', '\\"') + '"}}</tool_call>',
        '<|tool_call_begin|>functions.write:0<|tool_call_argument_begin|>{"text": "'
        + INNER.replace('"', '\\"')
        + '"}<|tool_call_end|>',
    ],
)
def test_markup_in_the_arguments_of_a_call_that_is_none_is_no_call(text: str) -> None:
    for size in (1, 9, 10_000):
        turn = offered_turn(text, ["look_up"], size)
        assert (turn.text, turn.calls) == (text, [])


def test_each_call_of_a_section_is_decided_alone() -> None:
    one, other = (f"<function={name}></function>" for name in ("look_up", "write"))
    for size in (1, 10_000):
        turn = offered_turn(f"<tool_call>{one}{other}</tool_call>.", ["look_up"], size)
        assert [call.name for call in turn.calls] == ["look_up"]
        assert turn.text == f"{other}</tool_call>."
        turn = offered_turn(f"<tool_call>{other}{one}</tool_call>.", ["look_up"], size)
        assert [call.name for call in turn.calls] == ["look_up"]
        assert turn.text == f"<tool_call>{other}."


@pytest.mark.parametrize("tools", ["look_up", [1], [len]])
def test_tools_are_names(tools: Any) -> None:
    with pytest.raises(UsageError, match="names of the offered tools"):
        Turn("vllm", tools=tools)


# ---------------------------------------------------------------- families

#: The family of each sample.
USED: dict[str, set[MarkupFamily]] = {
    "dsml": {"dsml"},
    "deepseek": {"deepseek"},
    "kimi": {"kimi"},
    "hermes": {"hermes", "qwen"},
}
ANY_MODEL = {
    "bedrock_converse", "cerebras", "fireworks", "groq", "huggingface", "ollama", "openai_compatible", "openrouter",
    "together", "vllm",
}  # fmt: skip
OF_VENDOR: dict[str, set[MarkupFamily]] = {
    "openai_chat": {"harmony"},
    "openai_responses": {"harmony"},
    "azure_openai": {"harmony"},
    "deepseek": {"dsml", "deepseek"},
    "kimi": {"kimi"},
    "qwen": {"hermes", "qwen"},
}


@pytest.mark.parametrize("name", providers.names())
def test_each_provider_declares_the_families_of_its_models(name: str) -> None:
    expected = ALL_MARKUP_FAMILIES if name in ANY_MODEL else frozenset(OF_VENDOR.get(name, ()))
    assert providers.get(name).traits.markup_families == expected


@pytest.mark.parametrize(
    "provider", ["openai_chat", "azure_openai", "deepseek", "kimi", "qwen", "mistral", "xai", "groq"]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_only_the_markup_of_the_providers_models_is_recovered(family: str, provider: str) -> None:
    markup = FAMILIES[family]
    if provider == "deepseek" and family.startswith("kimi k2"):
        markup = markup.replace("<|tool_call_", "<|tool_call_section_")  # the others are DeepSeek's tokens too
    is_used = not USED[family.split()[0]].isdisjoint(providers.get(provider).traits.markup_families)
    for mode, size in itertools.product(("recover", "strip"), (1, 10_000)):
        turn = offered_turn(f"A {markup}", None, size, mode, provider)
        assert len(turn.calls) == (is_used and mode == "recover")
        assert turn.text == ("A " if is_used else f"A {markup}")
        assert warning_codes(turn) == (["leaked_markup"] if is_used else [])


def test_text_that_is_a_tag_of_another_family_does_not_wait() -> None:
    turn = Turn("kimi", leaked_markup="recover")
    assert [event.text for event in turn.feed(chat({"content": "a <tool_call"})) if hasattr(event, "text")] == [
        "a <tool_call"
    ]


def test_names_are_cleaned_where_gpt_oss_is_a_model() -> None:
    for provider, name in {"openai_chat": "f", "vllm": "f", "deepseek": "f<|channel|>json"}.items():
        turn = Turn(provider, turn_key="k", leaked_markup="recover")
        call = {"index": 0, "id": "c", "function": {"name": "f<|channel|>json", "arguments": "{}"}}
        turn.feed(chat({"tool_calls": [call]}))
        turn.close(complete=True)
        assert [call.name for call in turn.calls] == [name]


def test_a_dialect_on_another_server_may_have_any_model() -> None:
    assert dialect("mine", base="openai_chat").traits.markup_families == ALL_MARKUP_FAMILIES
    assert dialect("openai_chat").traits.markup_families == {"harmony"}
    own = dialect("mine", base="openai_chat", markup_families=frozenset({"kimi"}))
    assert len(offered_turn(FAMILIES["kimi k2"], None, provider=own).calls) == 1
    assert offered_turn(FAMILIES["hermes"], None, provider=own).calls == []


@pytest.mark.parametrize("family", sorted(ALL_MARKUP_FAMILIES))
def test_each_family_has_tags_or_names(family: MarkupFamily) -> None:
    tokens = [token for markup in FAMILIES.values() for token in Lexer(frozenset({family})).feed(markup)]
    assert any(isinstance(token, Tag) for token in tokens) == (family != "harmony")


def test_a_turn_without_names_recovers_by_the_family_alone() -> None:
    assert len(chat_turn([FAMILIES["hermes"]]).calls) == 1
