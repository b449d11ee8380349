"""Ids: the documented vectors, legality and pairing for every target, and equality in every process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared_data import ROOT

from streamkit import ids, providers
from streamkit.ids import IdRule, TargetIds

VECTORS = ROOT.parent / "shared" / "vectors" / "ids.json"

TARGETS: dict[str, IdRule] = {
    rule.name: rule
    for rule in (providers.get(name).traits.id_rule for name in providers.names())
    if rule.name != "default"
}
LEGAL = {
    "anthropic": r"[a-zA-Z0-9_-]{1,64}",
    "bedrock": r"[a-zA-Z0-9_-]{1,64}",
    "openai_chat": r"[a-zA-Z0-9_-]{1,40}",
    "openai_compatible": r"[a-zA-Z0-9_-]{1,40}",
    "openai_responses": r"[a-zA-Z0-9_-]{1,64}",
    "mistral": r"[a-zA-Z0-9]{9}",
    "kimi": r"(?s)functions\..*:[0-9]+",
    "gemini": r"(?s).*",
}

CANONICAL = "hist_tool_0123456789abcdefABCDEF_-"
SUFFIX = CANONICAL.removeprefix("hist_tool_")

# ---------------------------------------------------------------- vectors


def _vectors(kind: str) -> list[Any]:
    if not VECTORS.is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"no {VECTORS.name} beside the checkout"))]
    return [pytest.param(case, id=repr(case["input"])[:60]) for case in json.loads(VECTORS.read_text())[kind]]


@pytest.mark.parametrize("case", _vectors("prefix"))
def test_prefix_vectors(case: dict[str, Any]) -> None:
    assert ids.normalize_to_openai_tool_id(case["input"]) == case["openai"]
    assert ids.normalize_to_history_tool_id(case["input"]) == case["history"]


@pytest.mark.parametrize("case", _vectors("canonical"))
def test_canonical_vectors(case: dict[str, Any]) -> None:
    arguments = case["input"]
    derived = ids.canonical_tool_id(
        provider_name=arguments["provider"],
        raw_id=arguments["raw_id"],
        tool_name=arguments["tool"],
        turn_key=arguments["turn_key"],
        call_index=arguments["index"],
    )
    assert derived == case["output"]


@pytest.mark.parametrize("case", _vectors("anthropic_sanitize"))
def test_anthropic_vectors(case: dict[str, Any]) -> None:
    assert ids.normalize_anthropic_tool_call_id(case["input"]) == case["output"]


@pytest.mark.parametrize("case", _vectors("mistral"))
def test_mistral_vectors(case: dict[str, Any]) -> None:
    assert ids.mistral_tool_id(case["input"]) == case["output"]


# ---------------------------------------------------------------- prefixes


@pytest.mark.parametrize(
    ("id", "openai", "history"),
    [
        ("", "call_", "hist_tool_"),
        ("hist_tool_", "call_", "hist_tool_"),
        ("call_", "call_", "hist_tool_"),
        ("toolu_", "call_", "hist_tool_"),
        ("toolu_hist_tool_x", "call_hist_tool_x", "hist_tool_hist_tool_x"),
        ("functions.read:0", "call_functions.read:0", "hist_tool_functions.read:0"),
        ("Call_x", "call_Call_x", "hist_tool_Call_x"),
    ],
)
def test_normalizing_changes_only_the_prefix(id: str, openai: str, history: str) -> None:
    assert ids.normalize_to_openai_tool_id(id) == openai
    assert ids.normalize_to_history_tool_id(id) == history


@pytest.mark.parametrize(
    ("id", "anthropic"),
    [
        ("hist_tool_CwGJ-4bjB1AzwiitK9edpV3i", "toolu_CwGJ-4bjB1AzwiitK9edpV3i"),
        ("call_x", "toolu_x"),
        ("toolu_x", "toolu_x"),
        ("functions.read:0", "toolu_functions.read:0"),
        ("", "toolu_"),
    ],
)
def test_the_form_of_anthropic_has_its_prefix(id: str, anthropic: str) -> None:
    assert ids.normalize_to_anthropic_tool_id(id) == anthropic


def test_a_canonical_id_with_the_prefix_of_anthropic_is_legal_there() -> None:
    converted = ids.normalize_to_anthropic_tool_id(ids.canonical_tool_id(raw_id="a|b:é"))
    assert ids.normalize_anthropic_tool_call_id(converted) == converted


@given(st.text())
def test_prefixes_convert_in_both_directions(text: str) -> None:
    to_openai, to_history = ids.normalize_to_openai_tool_id, ids.normalize_to_history_tool_id
    assert to_history(to_openai("hist_tool_" + text)) == "hist_tool_" + text
    assert to_openai(to_history("call_" + text)) == "call_" + text
    assert to_openai(to_openai(text)) == to_openai(text)
    assert to_history(to_history(text)) == to_history(text)


# ---------------------------------------------------------------- canonical ids

_fields = st.text(st.sampled_from("ab|\\é\ud800"), max_size=5)
_arguments = st.fixed_dictionaries(
    {
        "provider_name": _fields,
        "raw_id": _fields,
        "tool_name": _fields,
        "turn_key": _fields,
        "call_index": st.integers(0, 12),
    }
)


def test_canonical_id_is_derived_from_the_documented_seed() -> None:
    derived = ids.canonical_tool_id(
        provider_name="openai", raw_id="call_abc123", tool_name="read_file", turn_key="turn-1", call_index=0
    )
    assert derived == "hist_tool_CwGJ-4bjB1AzwiitK9edpV3i"


def test_none_equals_empty_text_and_other_types_are_converted_to_text() -> None:
    empty = ids.canonical_tool_id(provider_name="p", raw_id="", tool_name="", turn_key="t", call_index=1)
    assert ids.canonical_tool_id(provider_name="p", raw_id=None, tool_name=None, turn_key="t", call_index=1) == empty
    number = ids.canonical_tool_id(provider_name="p", raw_id=7, turn_key="t", call_index=1)
    assert number == ids.canonical_tool_id(provider_name="p", raw_id="7", turn_key="t", call_index=1)
    assert ids.is_canonical(ids.canonical_tool_id(raw_id=["x"]))


@given(_arguments, _arguments)
def test_different_calls_have_different_seeds(one: dict[str, Any], other: dict[str, Any]) -> None:
    seeds: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch:
        real = ids.sha256  # type: ignore[attr-defined]
        patch.setattr(ids, "sha256", lambda seed: (seeds.append(seed), real(seed))[1])  # type: ignore[func-returns-value]
        first, second = ids.derived_tool_id(**one), ids.derived_tool_id(**other)
    assert (seeds[0] == seeds[1]) is (one == other)
    assert (first == second) is (one == other)
    assert ids.is_canonical(first)


def test_separator_inside_a_field_is_escaped() -> None:
    assert ids.canonical_tool_id(provider_name="a|b", raw_id="c") != ids.canonical_tool_id(
        provider_name="a", raw_id="b|c"
    )
    assert ids.canonical_tool_id(provider_name="a\\", raw_id="c") != ids.canonical_tool_id(
        provider_name="a", raw_id="\\c"
    )


@given(_arguments)
def test_canonical_ids_are_unchanged(arguments: dict[str, Any]) -> None:
    for make in (ids.canonical_tool_id, ids.canonicalize_tool_call_id, ids.canonicalize_tool_response_id):
        derived = make(**arguments)
        assert ids.is_canonical(derived)
        assert make(**{**arguments, "raw_id": derived, "tool_name": "other", "call_index": 3}) == derived
    assert ids.derived_tool_id(**{**arguments, "raw_id": CANONICAL}) != CANONICAL


def test_call_and_response_get_the_same_canonical_id() -> None:
    arguments: dict[str, Any] = {
        "provider_name": "kimi",
        "raw_id": "f:0",
        "tool_name": "f",
        "turn_key": "t",
        "call_index": 2,
    }
    assert ids.canonicalize_tool_call_id(**arguments) == ids.canonicalize_tool_response_id(**arguments)


def test_only_complete_ids_are_canonical() -> None:
    assert ids.is_canonical(CANONICAL)
    for other in (
        "",
        "hist_tool_",
        CANONICAL[:-1],
        CANONICAL + "x",
        CANONICAL[:-1] + "\n",
        CANONICAL[:-1] + "é",
        "x" + CANONICAL,
    ):
        assert not ids.is_canonical(other)
    assert not ids.is_canonical(None)
    assert not ids.is_canonical(34)
    short = ids.canonicalize_tool_call_id(raw_id="hist_tool_abc", turn_key="t")
    assert ids.is_canonical(short)
    assert ids.canonical_tool_id(raw_id="hist_tool_abc") == "hist_tool_abc"  # as documented


def test_id_generator_numbers_the_calls_of_a_turn() -> None:
    generate = ids.id_generator("turn-2")
    derived = [generate() for _ in range(4)]
    assert derived[3] == "hist_tool_dGX7UIxFZzvm3eo1Bw_HzQ0Q"
    assert len(set(derived)) == 4
    again = ids.id_generator("turn-2")
    assert [again() for _ in range(4)] == derived
    assert ids.id_generator("turn-3")() not in derived


# ---------------------------------------------------------------- legal forms


def test_anthropic_ids_replace_utf16_units_and_hash_the_complete_id() -> None:
    assert ids.normalize_anthropic_tool_call_id("😀") == "___f0443a342c"
    assert ids.normalize_anthropic_tool_call_id("trailing\n") == "trailing__fa69d7a9c4"
    assert ids.normalize_anthropic_tool_call_id("") == "_e3b0c44298"
    assert ids.normalize_anthropic_tool_call_id(None) is None
    long = "x" * 65
    assert ids.normalize_anthropic_tool_call_id(long[:-1]) == long[:-1]
    assert ids.normalize_anthropic_tool_call_id(long) == "x" * 53 + "_9537c5fdf1"


@given(st.text(st.characters(exclude_categories=())))
def test_anthropic_ids_are_legal_and_stable(id: str) -> None:
    derived = ids.normalize_anthropic_tool_call_id(id)
    assert derived is not None
    assert re.fullmatch(LEGAL["anthropic"], derived)
    assert ids.normalize_anthropic_tool_call_id(derived) == derived


def test_used_mistral_ids_are_hashed_again() -> None:
    plain = ids.mistral_tool_id("call_abc123")
    assert plain == "l9OirGpJ4"
    second = ids.mistral_tool_id("call_abc123", used={plain})
    third = ids.mistral_tool_id("call_abc123", used={plain, second})
    assert len({plain, second, third}) == 3
    kept = ids.mistral_tool_id("ABCdef123")
    assert kept == "ABCdef123"
    assert ids.mistral_tool_id("ABCdef123", used={kept}) != kept
    assert re.fullmatch(LEGAL["mistral"], ids.mistral_tool_id("ABCdef123", used={kept}))


# ---------------------------------------------------------------- target ids

_foreign = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=90),
    st.text(st.sampled_from("ab._:|"), min_size=1, max_size=4),
    st.builds(
        str.__add__, st.sampled_from(["call_", "toolu_", "hist_tool_", ""]), st.sampled_from(["a", "a.b", "x" * 70])
    ),
    st.builds(lambda n: ids.canonical_tool_id(provider_name="p", turn_key="t", call_index=n), st.integers(0, 5)),
    st.sampled_from(["ABCdef123", "toolu_" + SUFFIX, "call_" + SUFFIX, CANONICAL, "functions.f:0", "functions.f:1"]),
)


def test_every_target_has_an_id_rule_with_a_source() -> None:
    assert set(TARGETS) == set(LEGAL)
    for name, rule in TARGETS.items():
        assert rule.name == name
        assert len(rule.source) > 20


@pytest.mark.parametrize(
    ("target", "canonical", "kimi", "long"),
    [
        ("anthropic", f"toolu_{SUFFIX}", "functions_f_0_", "y" * 53 + "_"),
        ("bedrock", f"tooluse_{SUFFIX}", "functions_f_0_", "y" * 53 + "_"),
        ("openai_chat", f"call_{SUFFIX}", "call_functions_f_0_", "call_" + "y" * 24 + "_"),
        ("openai_responses", f"call_{SUFFIX}", "call_functions_f_0_", "call_" + "y" * 48 + "_"),
        ("mistral", "XsjplG5o9", "", ""),
        ("kimi", "functions.f:0", "functions.f:1", "functions.f:2"),
        ("gemini", CANONICAL, "functions.f:0", "y" * 80),
    ],
)
def test_id_form_of_each_target(target: str, canonical: str, kimi: str, long: str) -> None:
    thread = TargetIds(TARGETS[target])
    assert thread.call(CANONICAL, "f") == canonical
    assert thread.call("functions.f:0", "f").startswith(kimi)
    assert thread.call("y" * 80, "f").startswith(long)


@pytest.mark.parametrize("target", TARGETS)
@given(st.lists(_foreign, unique=True, max_size=12))
def test_target_ids_are_legal_and_unique_and_shared_by_call_and_result(target: str, thread: list[str]) -> None:
    target_ids = TargetIds(TARGETS[target])
    derived = [target_ids.call(each, "f") for each in thread]
    assert len(set(derived)) == len(thread)
    for each, form in zip(thread, derived, strict=True):
        assert re.fullmatch(LEGAL[target], form)
        assert target_ids.result(each, "another name") == form
        assert target_ids.call(each, "f") == form
    again = TargetIds(TARGETS[target])
    assert [again.call(each, "f") for each in thread] == derived


@pytest.mark.parametrize("target", TARGETS)
@given(st.lists(_foreign, unique=True, max_size=12))
def test_target_ids_are_unique_if_every_hash_collides(target: str, thread: list[str]) -> None:
    class Poor:
        """A hash with very few values: nearly every first candidate is used already."""

        def __init__(self, data: bytes) -> None:
            self._sum = sum(data) % 17

        def digest(self) -> bytes:
            return bytes([self._sum + 1] * 32)

        def hexdigest(self) -> str:
            return self.digest().hex()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ids, "sha256", Poor)
        target_ids = TargetIds(TARGETS[target])
        derived = [target_ids.call(each) for each in thread]
        assert len(set(derived)) == len(thread)
        assert [target_ids.result(each) for each in thread] == derived
        assert all(re.fullmatch(LEGAL[target], form) for form in derived)
        again = TargetIds(TARGETS[target])
        assert [again.call(each) for each in thread] == derived


def test_first_call_of_the_conversation_gets_the_plain_form() -> None:
    thread = TargetIds(TARGETS["openai_chat"])
    first, second, third = (thread.call(each) for each in ("call_a", "toolu_a", "a"))
    assert first == "call_a"
    assert second.startswith("call_a_")
    assert third.startswith("call_a_")
    anthropic = TargetIds(TARGETS["anthropic"])
    assert anthropic.call("toolu_" + SUFFIX) == "toolu_" + SUFFIX
    assert anthropic.call(CANONICAL) != "toolu_" + SUFFIX


def test_result_without_a_call_gets_a_new_id() -> None:
    kimi = TargetIds(TARGETS["kimi"])
    assert kimi.call("a", "f") == "functions.f:0"
    assert kimi.result("lost", "g") == "functions.g:1"
    assert kimi.result("lost", "g") == "functions.g:1"
    assert kimi.call("b", "f") == "functions.f:2"
    assert kimi.result("a", "f") == "functions.f:0"


def test_origin_id_is_sent_back_to_its_provider() -> None:
    kimi = TargetIds(TARGETS["kimi"])
    assert kimi.call("h1", "f", origin="functions.f:0") == "functions.f:0"
    assert kimi.result("h1", "f") == "functions.f:0"
    assert (
        kimi.call("h2", "f", origin="functions.f:0") == "functions.f:1"
    )  # the next turn numbers its calls from zero again
    assert kimi.call("h3", "f", origin="functions.f:1") == "functions.f:2"
    assert kimi.call("h4", "f", origin="f:9") == "f:9"
    assert kimi.call("h5", "f", origin="") == "functions.f:4"
    assert kimi.call("h6", "f", origin=7) == "functions.f:5"


def test_origin_id_that_the_target_rejects_is_not_used() -> None:
    assert TargetIds(TARGETS["mistral"]).call(CANONICAL, origin="too_long_for_it") == "XsjplG5o9"
    assert TargetIds(TARGETS["mistral"]).call(CANONICAL, origin="abcDEF123") == "abcDEF123"
    assert TargetIds(TARGETS["openai_responses"]).call(CANONICAL, origin="x" * 65) == "call_" + SUFFIX
    assert TargetIds(TARGETS["openai_chat"]).call(CANONICAL, origin="chatcmpl-tool-1") == "chatcmpl-tool-1"
    assert TargetIds(TARGETS["gemini"]).call(CANONICAL, origin="a") == "a"
    gemini = TargetIds(TARGETS["gemini"])
    assert gemini.call("b", origin="a") == "a"
    assert gemini.call("a") == "a_1"


# ---------------------------------------------------------------- choice of the rule


@pytest.mark.parametrize(
    ("provider", "model", "target"),
    [
        (None, None, "openai_chat"),
        ("openai_chat", "gpt-4o", "openai_chat"),
        ("deepseek", "deepseek-reasoner", "openai_chat"),
        ("ollama", None, "openai_chat"),
        ("anthropic", "claude-sonnet-4", "anthropic"),
        ("bedrock_invoke", "anthropic.claude-3", "anthropic"),
        ("bedrock_converse", "anthropic.claude-3", "bedrock"),
        ("bedrock_converse", "mistral.mistral-large-2402-v1:0", "mistral"),
        ("bedrock_converse", "moonshot.kimi-k2-thinking", "bedrock"),
        ("gemini", "gemini-2.5-pro", "gemini"),
        ("openai_responses", "gpt-5", "openai_responses"),
        ("mistral", None, "mistral"),
        ("kimi", None, "kimi"),
        ("moonshot", "anything", "kimi"),
        ("groq", "moonshotai/kimi-k2-instruct", "kimi"),
        ("anthropic", "kimi-k2", "anthropic"),
        ("openrouter", "mistralai/mixtral-8x22b", "mistral"),
    ],
)
def test_id_rule_by_wire_and_model(provider: str | None, model: str | None, target: str) -> None:
    assert ids.tool_id_strategy(provider, model) == target
    assert ids.tool_id_strategy(provider_name=provider, model=model) in TARGETS


@pytest.mark.parametrize(
    "model", ["kimi-k2", "hf:moonshotai/Kimi-K2-Thinking", "k2", "foo-k2-bar", "k2p5", "K2-Think", "moonshot-v1-8k"]
)
def test_kimi_models_are_recognized(model: str) -> None:
    assert ids.tool_id_strategy("vllm", model) == "kimi"


@pytest.mark.parametrize(
    "model",
    [
        "mistral-large-latest",
        "devstral-small",
        "codestral-2501",
        "pixtral-12b",
        "ministral-8b",
        "magistral-medium",
        "open-mixtral-8x7b",
    ],
)
def test_mistral_models_are_recognized(model: str) -> None:
    assert ids.tool_id_strategy("openai_compatible", model) == "mistral"


@pytest.mark.parametrize("model", ["mk2", "gpt-4o", "deepseek-chat", "k20", "qwen3", "llama-3.3-70b"])
def test_other_models_use_the_rule_of_the_wire(model: str) -> None:
    assert ids.tool_id_strategy(None, model) == "openai_chat"


# ---------------------------------------------------------------- equality in every process

_SAMPLE = """
from streamkit import ids, providers
from streamkit.ids import TargetIds
drawn = ["", "a.b", "a:b", "call_x", "toolu_x", "\\u65e5\\u672c", "\\ud83d", "x" * 99, "functions.f:0", "ABCdef123"]
drawn += [ids.canonical_tool_id(provider_name="p", raw_id=i, tool_name="t", turn_key="k", call_index=3) for i in drawn]
for name in providers.names():
    thread = TargetIds(providers.get(name).traits.id_rule)
    print(ascii([thread.call(i, "f") for i in drawn]), end="")
"""


@pytest.mark.slow
def test_ids_are_equal_in_every_process_and_for_every_hash_seed() -> None:
    def run_sample(seed: str) -> str:
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": str(ROOT),
            "PYTHONIOENCODING": "ascii:backslashreplace",
        }
        command = [sys.executable, "-c", _SAMPLE]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    outputs = {run_sample(seed) for seed in ("0", "1", "random")}
    assert len(outputs) == 1
    assert len(outputs.pop()) > 1000


def test_every_public_name_is_listed() -> None:
    public = {
        name
        for name, value in vars(ids).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == ids.__name__
    }
    assert public | {"HISTORY_PREFIX"} == set(ids.__all__)
