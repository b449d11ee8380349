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
            page.keyboard.press("3")
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
        page.keyboard.press("3")
        page.keyboard.press("j")
        page.keyboard.press("j")
        assert focused("row.n") == 1
        page.keyboard.press("Enter")
        assert page.locator("#frames .opened").count() == 1
        page.keyboard.press("Enter")
        assert page.locator("#frames .opened").count() == 0
        page.keyboard.press("Escape")
        assert focused("id") == "panel-frames"
        page.keyboard.press("4")
        assert page.is_visible("#panel-request")
        page.focus("#tab-request")
        page.keyboard.press("ArrowRight")
        assert page.get_attribute("#tab-response", "aria-selected") == "true"


def three_calls(exchanges: ExchangeList, *, is_continued: bool = True) -> None:
    """Add a response whose parts came at known times, and the request with the results of its calls."""
    start = {"method": "POST", "path": "/p", "provider": "openai_chat", "model": "m"}

    def received(seconds: float, delta: dict[str, Any], finish: str | None = None) -> tuple[float, bytes]:
        chunk = {"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        return 1_800_000_000.0 + seconds, b"data: " + json.dumps(chunk).encode() + b"\n\n"

    def call(index: int, arguments: str, **facts: str) -> dict[str, Any]:
        return {
            "tool_calls": [{"index": index, **facts, "function": {"name": f"tool_{index}", "arguments": arguments}}]
        }

    parts = [received(0.5, {"reasoning_content": "Hm."}), received(1.0, {"reasoning_content": " Yes."})]
    parts += [received(1.1, {"content": "Let me look."}), received(1.4, {"content": " Now."})]
    calls = [{"id": f"call_{index}", "function": {"name": f"tool_{index}", "arguments": "{}"}} for index in range(3)]
    for index in range(3):
        parts += [received(1.5 + index, call(index, "{", id=f"call_{index}")), received(2.3 + index, call(index, "}"))]
    parts += [received(4.5, {}, "tool_calls"), (1_800_000_004.5, b"data: [DONE]\n\n")]
    asked = ExchangeStart(at=1_800_000_000.0, request={"messages": []}, **start)
    exchanges.take(Copies(1, start=asked, parts=deque(parts), end=ExchangeEnd(at=1_800_000_004.5, status=200)))
    if is_continued:
        results = [{"role": "tool", "tool_call_id": f"call_{index}", "content": "4"} for index in range(3)]
        messages = [{"role": "assistant", "tool_calls": [{"type": "function"} | each for each in calls]}, *results]
        asked = ExchangeStart(at=1_800_000_006.0, request={"messages": messages}, **start)
        exchanges.take(Copies(2, start=asked))


@pytest.mark.parametrize(("theme", "size"), VIEWS)
def test_the_timeline_is_read_with_the_mouse_and_the_keyboard(
    browser: Any, theme: str, size: tuple[int, int], tmp_path: Path
) -> None:
    exchanges = ExchangeList()
    three_calls(exchanges)
    page_of = TapPage(exchanges)
    with served(page_of, page_of.close) as address, opened(browser, f"{address}/#1", theme, size) as page:
        page.wait_for_selector("#parts .call .state.complete >> nth=2")
        page.keyboard.press("2")
        bars = page.locator("#bars .bar")
        assert bars.locator("text").all_text_contents() == [
            "First byte · 0.50 s",
            "Reasoning · 0.50 s",
            "Text · 0.30 s",
            "tool_0 · 0.80 s",
            "tool_1 · 0.80 s",
            "tool_2 · 0.80 s",
            "Tools until request 2 · 1.50 s",
        ]
        boxes = [bars.nth(index).locator(".fill").bounding_box() for index in range(7)]
        whole = page.locator("#timeline").bounding_box()
        starts = [(box["x"] - whole["x"]) / whole["width"] for box in boxes]
        assert starts == pytest.approx([at / 6.0 for at in (0, 0.5, 1.1, 1.5, 2.5, 3.5, 4.5)], abs=0.01)
        assert sum(box["width"] for box in boxes) == pytest.approx(whole["width"] * 5.2 / 6.0, abs=2)
        assert_fits(page)
        bars.nth(3).hover()
        sentence = "Call tool_0, complete: from 1.50 s to 2.30 s, 0.80 s, rows 4 to 5. Enter opens its frames."
        assert page.locator("#moment").text_content() == sentence
        assert bars.nth(3).get_attribute("aria-label") == sentence
        page.focus("#tab-timeline")
        page.keyboard.press("Tab")  # the panel
        page.keyboard.press("Tab")
        for _ in range(4):
            page.keyboard.press("ArrowDown")
        assert page.locator("#moment").text_content().startswith("Call tool_1, complete: from 2.50 s")
        assert page.evaluate("getComputedStyle(document.activeElement.querySelector('.line')).strokeWidth") == "2px"
        page.screenshot(path=tmp_path / f"timeline-{theme}-{size[0]}.png")
        page.keyboard.press("Enter")
        assert page.is_visible("#panel-frames")
        assert page.evaluate("document.activeElement.row.n") == 6
        page.keyboard.press("2")
        page.focus("#bars .bar >> nth=6")
        page.keyboard.press("Enter")
        page.wait_for_function("() => location.hash === '#2'")
        assert page.locator("#title").text_content() == "m"


def test_a_bar_that_grows_keeps_the_focus_and_a_part_that_is_awaited_reaches_to_now(browser: Any) -> None:
    exchanges = ExchangeList()
    page_of = TapPage(exchanges)
    with served(page_of, page_of.close) as address, opened(browser, address) as page:
        now = page.evaluate("Date.now() / 1000")
        start = {"method": "POST", "path": "/p", "provider": "openai_chat", "model": "m"}
        exchanges.take(Copies(1, start=ExchangeStart(at=now, **start)))
        page.wait_for_selector("#facts .waiting")
        page.keyboard.press("2")
        page.wait_for_function("() => document.querySelector('#bars text').textContent !== 'First byte · 0.00 s'")
        for number in range(4):
            chunk = {"id": "r", "choices": [{"index": 0, "delta": {"content": "x"}}]}
            data = b"data: " + json.dumps(chunk).encode() + b"\n\n"
            exchanges.take(Copies(1, parts=deque([(now + 2.0 + number, data)])))
            sync_api.expect(page.locator("#bars text").last).to_have_text(f"Text · {number}.00 s")
            if not number:
                page.focus("#bars .bar.text")
        assert page.evaluate("document.activeElement.bar.span.kind") == "text"
        assert page.locator("#moment").text_content().startswith("Text: from 2.00 s to 5.00 s")


def test_facts_that_are_not_there_have_no_place(browser: Any) -> None:
    exchanges = filled("m")
    page_of = TapPage(exchanges)
    with served(page_of, page_of.close) as address, opened(browser, f"{address}/#1") as page:
        page.wait_for_selector("#parts .text")
        assert page.locator("#facts dt:visible").all_text_contents() == [
            "State",
            "Status",
            "Duration",
            "First byte",
            "Finish",
            "Response id",
        ]
        assert "\u2013" not in page.locator("main").inner_text()


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_focus_is_visible_below_the_header_that_stays(browser: Any, size: tuple[int, int]) -> None:
    """Upwards, a row had the focus where the header of its columns, or on a phone the tabs, covered its ring."""
    page_of = TapPage(filled("m", text="line\n" * 100))
    with served(page_of, page_of.close) as address, opened(browser, f"{address}/#1", size=size) as page:
        page.wait_for_selector("#parts .text")
        page.keyboard.press("3")
        for _ in range(60):
            page.keyboard.press("j")
        header = ".columns" if size == DESKTOP else "[role=tablist]"
        for _ in range(50):
            page.keyboard.press("k")
            covered = page.evaluate(
                f"document.querySelector('{header}').getBoundingClientRect().bottom"
                " - document.activeElement.getBoundingClientRect().top"
            )
            assert covered <= 0
        assert page.evaluate("document.activeElement.row.n") == 9


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
        for panel, tab in (("#panel-response", "1"), ("#panel-frames", "3")):
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
