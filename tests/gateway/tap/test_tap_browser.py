"""The page and the report in Chromium: opened, clicked through, with the keyboard, in both themes and on a phone.

Screenshots are written to ``--basetemp``, one of each view, for people to look at.
"""

from __future__ import annotations

import json
import shutil
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway.tap.tap_servers import Tap, gateway_tap, served
from shared_data import recorded_streams

from streamkit.cli import main
from streamkit.gateway.tap import ExchangeList
from streamkit.gateway.tap.observed_exchange import ExchangeEnd, ExchangeStart
from streamkit.gateway.tap.page import TapPage
from streamkit.gateway.tap.relay import Copies
from streamkit.testing import Call, Reasoning, Reply, Status, serve

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # playwright's own pipes
]

LIMIT = 30_000  # milliseconds for one step of a browser, on a machine that does much else
DESKTOP, PHONE = (1280, 800), (390, 844)
VIEWS = [(theme, size) for theme in ("light", "dark") for size in (DESKTOP, PHONE)]
BODY = {"model": "gpt-5", "stream": True, "messages": [{"role": "user", "content": "Is it warmer in Oslo or Bergen?"}]}
HOSTILE = "</script><img src=x onerror=document.title='owned'><script>document.title='owned'</script>"
#: Adds up the layout shifts of a page (https://web.dev/articles/cls) in ``window.shifts``.
SUM_OF_SHIFTS = """() => {
  window.shifts = 0;
  const add = (list) => { for (const entry of list.getEntries()) window.shifts += entry.value; };
  new PerformanceObserver(add).observe({type: "layout-shift"});
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        sync_api.expect.set_options(timeout=LIMIT)
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@contextmanager
def opened(browser: Any, url: str, theme: str = "light", size: tuple[int, int] = DESKTOP) -> Iterator[Any]:
    """Open an address; fail if the page reports anything, or asks another server."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
    page = context.new_page()
    page.set_default_timeout(LIMIT)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(url)
    yield page
    context.close()
    origin = url if url.startswith("file:") else "/".join(url.split("/")[:3])
    assert said == []
    assert [address for address in asked if not address.startswith((origin, "data:"))] == []


def assert_fits(page: Any) -> None:
    """Assert that nothing is wider than the page."""
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def filled(*models: str, text: str = "Hello.") -> ExchangeList:
    """Return a list with a finished response of each model."""
    exchanges = ExchangeList()
    for key, model in enumerate(models, 1):
        start = ExchangeStart(at=1_800_000_000.0, method="POST", path="/p", provider="openai_chat", model=model)
        chunks = [{"id": "r", "choices": [{"index": 0, "delta": {"content": line}}]} for line in text.splitlines(True)]
        chunks.append({"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        parts = deque((1_800_000_001.0, b"data: " + json.dumps(chunk).encode() + b"\n\n") for chunk in chunks)
        exchanges.take(Copies(key, start=start, parts=parts, end=ExchangeEnd(at=1_800_000_002.0, status=200)))
    return exchanges


def ask(tap: Tap) -> None:
    httpx.post(f"{tap.url}/v1/chat/completions", json=BODY, timeout=30)


@pytest.fixture(scope="module")
def tap() -> Iterator[Tap]:
    """A tap that has seen a response with calls, an error, and hostile text."""
    script = [
        Reply(
            Reasoning("Both at once."),
            "Let me look. ",
            Call("weather", {"city": "Oslo"}),
            Call("weather", {"city": "Bergen"}),
        ),
        Status(429, "slow down"),
        Reply(HOSTILE, Call("weather", {"city": HOSTILE})),
    ]
    with serve(script, strict=False) as server, gateway_tap("anthropic", server.base_url("anthropic")) as tap:
        for _ in script:
            ask(tap)
        tap.details()  # waits for their end
        yield tap


@pytest.mark.parametrize(("theme", "size"), VIEWS)
def test_the_page_is_clicked_through(browser: Any, tap: Tap, theme: str, size: tuple[int, int], tmp_path: Path) -> None:
    name = f"{theme}-{size[0]}"
    with opened(browser, tap.page, theme, size) as page:
        page.wait_for_selector("#requests a >> nth=2")
        page.screenshot(path=tmp_path / f"list-{name}.png")
        assert_fits(page)
        page.click("#requests a >> nth=0")
        page.wait_for_selector("#parts .call .state.complete >> nth=1")
        assert page.locator("#parts .label").all_text_contents() == ["Reasoning", "Text", "Call", "Call"]
        assert page.locator("#parts .call .body").first.text_content() == '{"city":"Oslo"}'
        assert "openai_chat → anthropic" in page.locator("#route").text_content()
        page.screenshot(path=tmp_path / f"response-{name}.png")
        assert_fits(page)
        page.click("#tab-frames")
        rows = page.locator("#frames .row")
        assert rows.count() == int(page.locator("#count").text_content())
        rows.first.click()
        assert '"message_start"' in page.locator("#frames .opened pre").first.text_content()
        page.screenshot(path=tmp_path / f"frames-{name}.png")
        assert_fits(page)
        page.click("#tab-request")
        assert json.loads(page.locator("#request").text_content())["model"] == "gpt-5"
        if size == PHONE:
            assert not page.is_visible("#list")
            page.click("#back")
            assert page.is_visible("#list")
            assert not page.is_visible("#detail")
        page.click("#requests a >> nth=1")
        page.wait_for_selector("#facts .failed")
        page.click("#tab-response")
        assert page.locator("#messages .error .body").text_content() == "provider_error: rate_limited: slow down"
        page.screenshot(path=tmp_path / f"error-{name}.png")
        if size == DESKTOP:
            assert page.locator("#list a[aria-current=true]").count() == 1
        with page.expect_download() as download:
            page.click("#download")
        assert download.value.suggested_filename == "streamkit-2.html"
        with page.context.expect_page() as report:
            page.click("#open")
        assert report.value.locator("#messages .error .body").text_content().endswith("slow down")


def test_text_that_is_markup_stays_text(browser: Any, tap: Tap) -> None:
    for address in (f"{tap.page}/#3", f"{tap.page}/exchanges/3.html"):
        with opened(browser, address) as page:
            page.wait_for_selector("#parts .call .state.complete")
            assert page.locator("#parts .text .body").text_content() == HOSTILE
            assert page.locator("#parts img, #frames img, #frames script").count() == 0
            page.keyboard.press("2")
            assert "owned" not in page.title()


def test_the_keyboard_is_enough(browser: Any, tap: Tap) -> None:
    with opened(browser, tap.page) as page:
        page.wait_for_selector("#requests a >> nth=2")

        def focused(expression: str) -> Any:
            return page.evaluate(f"document.activeElement.{expression}")

        page.keyboard.press("Tab")
        assert focused("className") == "skip"
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        assert focused("hash") == "#1"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_selector("#facts .failed")
        assert focused("id") == "detail"
        page.keyboard.press("Escape")
        assert focused("hash") == "#2"
        page.keyboard.press("k")
        page.keyboard.press("Enter")
        page.wait_for_selector("#parts .call")
        page.keyboard.press("2")
        page.keyboard.press("j")
        page.keyboard.press("j")
        assert focused("row.n") == 1
        page.keyboard.press("Enter")
        assert page.locator("#frames .opened").count() == 1
        page.keyboard.press("Enter")
        assert page.locator("#frames .opened").count() == 0
        page.keyboard.press("Escape")
        assert focused("id") == "panel-frames"
        page.keyboard.press("3")
        assert page.is_visible("#panel-request")
        page.focus("#tab-request")
        page.keyboard.press("ArrowRight")
        assert page.get_attribute("#tab-response", "aria-selected") == "true"


def test_a_call_grows_in_place(browser: Any) -> None:
    """Each piece is received once the page shows the one before it, whatever the speed of the browser."""
    exchanges = ExchangeList()
    page_of = TapPage(exchanges)

    def receive(*deltas: dict[str, Any], finish: str | None = None) -> None:
        choice = {"index": 0, "finish_reason": finish}
        chunks = [{"id": "r", "choices": [choice | {"delta": delta}]} for delta in deltas]
        parts = deque((1_800_000_001.0, b"data: " + json.dumps(chunk).encode() + b"\n\n") for chunk in chunks)
        exchanges.take(Copies(1, parts=parts))

    def call_delta(index: int, arguments: str, **facts: str) -> dict[str, Any]:
        return {"tool_calls": [{"index": index, **facts, "function": {"name": "weather", "arguments": arguments}}]}

    with served(page_of, page_of.close) as address, opened(browser, address) as page:
        page.wait_for_selector("#empty", state="visible")
        page.evaluate(SUM_OF_SHIFTS)
        start = ExchangeStart(at=1_800_000_000.0, method="POST", path="/p", provider="openai_chat", model="m")
        exchanges.take(Copies(1, start=start))
        receive({"content": "Let me look."})
        page.wait_for_selector("#parts .text")
        for index, city in enumerate(("Oslo", "Bergen")):
            body = page.locator("#parts .call .body").nth(index)
            pieces = [f'{{"city": "{city}", "text": "', *["x" * 8] * 5, '"}']
            for number, piece in enumerate(pieces, 1):
                receive(call_delta(index, piece, **({"id": f"call_{index}"} if number == 1 else {})))
                sync_api.expect(body).to_have_text("".join(pieces[:number]))
            assert page.locator("#parts .call").count() == index + 1
        receive({}, finish="tool_calls")
        exchanges.take(Copies(1, end=ExchangeEnd(at=1_800_000_002.0, status=200)))
        sync_api.expect(page.locator("#parts .call .state.complete")).to_have_count(2)
        page.wait_for_selector("#facts .finished")
        assert page.evaluate("window.shifts") < 0.1  # what web.dev/cls calls good


def test_a_page_whose_tap_has_ended_says_so_and_keeps_what_it_shows(browser: Any) -> None:
    with serve([Reply("Hello.")], strict=False) as server:
        context = browser.new_context()
        page = context.new_page()
        with gateway_tap("anthropic", server.base_url("anthropic")) as tap:
            ask(tap)
            page.goto(tap.page)
            page.wait_for_selector("#parts .text")
        page.wait_for_selector("#connection.lost")
        assert page.locator("#parts .text .body").text_content() == "Hello."
        context.close()


def test_a_page_whose_tap_was_started_again_shows_the_new_requests_alone(browser: Any) -> None:
    """The new ones have the numbers of those before; under an old one's name they would be mistaken for it."""
    lists = [filled("before-1", "before-2"), filled("after")]
    pages = [TapPage(exchanges) for exchanges in lists]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await pages[0](scope, receive, send)

    with served(app, lambda: pages[0].close()) as address, opened(browser, f"{address}/#2") as page:
        page.wait_for_selector("#parts .text")
        assert page.locator("#requests .model").all_text_contents() == ["before-1", "before-2"]
        pages.pop(0).close()
        page.wait_for_selector("text=The tap was started again")
        page.wait_for_selector("#requests >> text=after")
        assert page.locator("#requests .model").all_text_contents() == ["after"]
        assert page.evaluate("location.hash") == ""
        page.click("#requests a")
        page.wait_for_selector("#parts .text")
        assert page.locator("#title").text_content() == "after"


def test_a_finished_response_is_opened_at_its_beginning(browser: Any) -> None:
    page_of = TapPage(filled("m", text="line\n" * 400))
    with served(page_of, page_of.close) as address, opened(browser, f"{address}/#1") as page:
        for panel, tab in (("#panel-response", "1"), ("#panel-frames", "2")):
            page.keyboard.press(tab)
            # A function: an expression is evaluated again in the page, where its content security policy forbids that.
            page.wait_for_function(f"() => document.querySelector('{panel}').scrollHeight > 1000")
            assert page.evaluate(f"document.querySelector('{panel}').scrollTop") == 0


@pytest.mark.parametrize(("theme", "size"), VIEWS)
def test_a_report_is_opened_from_its_file(browser: Any, theme: str, size: tuple[int, int], tmp_path: Path) -> None:
    files = [str(next(iter(recorded_streams(name))).path) for name in ("anthropic", "gemini", "openai_responses")]
    report = tmp_path / "report.html"
    assert main(["report", *files, "-o", str(report)]) == 0
    with opened(browser, report.as_uri(), theme, size) as page:
        assert page.locator("#requests a").count() == 3
        assert page.locator("#connection").text_content() == "3 responses"
        assert not page.is_visible("#links")
        for number in (2, 1):
            if size == PHONE:
                page.click("#back")
            page.click(f"#requests a >> nth={number}")
            page.click("#tab-frames")
            assert page.locator("#frames .row").count() == int(page.locator("#count").text_content()) > 1
        page.screenshot(path=tmp_path / f"report-{theme}-{size[0]}.png")
        assert_fits(page)


def test_a_long_response_opens_with_its_end_and_shows_the_rest(browser: Any, tmp_path: Path) -> None:
    chunk = {"id": "r", "choices": [{"index": 0, "delta": {"content": "word "}}]}
    end = {"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    data = (b"data: " + json.dumps(chunk).encode() + b"\n\n") * 2500 + b"data: " + json.dumps(end).encode()
    file, report = tmp_path / "long.sse", tmp_path / "report.html"
    file.write_bytes(data + b"\n\ndata: [DONE]\n\n")
    assert main(["report", str(file), "-o", str(report)]) == 0
    with opened(browser, report.as_uri()) as page:
        assert page.locator("#parts .text .body").text_content() == "word " * 2500
        page.click("#tab-frames")
        assert page.locator("#frames .row").count() == 1000
        page.click("#earlier")
        page.click("#earlier")
        assert page.locator("#frames .row").count() == int(page.locator("#count").text_content())
        assert not page.is_visible("#earlier")
