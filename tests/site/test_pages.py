"""The built pages in a real browser: nothing leaves the site, nothing overflows, everything has its text."""

import re
from pathlib import Path

import pytest

pytestmark = [pytest.mark.site, pytest.mark.slow]

CHAPTERS = [path.stem for path in sorted((Path(__file__).parents[2] / "tutorials").glob("[0-9][0-9]_*.py"))]
PAGES = [
    "index",
    "setup",
    "numbers",
    "troubleshooting",
    "glossary",
    *(f"chapters/{stem}" for stem in CHAPTERS),
]


@pytest.fixture
def open_page(browser, server):
    """Open a page of the site, and collect what it asks for and what goes wrong in it."""
    opened = []

    def open_(name: str, *, width: int = 1280, theme: str = "light", javascript: bool = True):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, java_script_enabled=javascript
        )
        page = context.new_page()
        page.asked, page.errors = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.goto(f"{server}/{name}.html")
        opened.append(context)
        return page

    yield open_
    for context in opened:
        context.close()


@pytest.mark.parametrize("name", PAGES)
def test_no_request_leaves_the_site(open_page, server, name):
    page = open_page(name)
    assert page.errors == []
    assert [url for url in page.asked if not url.startswith((server, "data:"))] == []


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_page_never_scrolls_sideways(open_page, name, width):
    page = open_page(name, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", PAGES)
def test_every_picture_has_a_text_alternative(open_page, name):
    page = open_page(name)
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('article img, article svg[role=img]')]
        .filter(e => !(e.getAttribute('alt') || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby')))
        .map(e => e.outerHTML.slice(0, 80))"""
    )
    assert nameless == []


@pytest.mark.parametrize("name", CHAPTERS)
def test_no_id_stands_twice(open_page, name):
    page = open_page(f"chapters/{name}")
    twice = page.evaluate(
        """() => { const seen = {}; for (const e of document.querySelectorAll('[id]')) seen[e.id] = (seen[e.id] || 0) + 1;
        return Object.keys(seen).filter(k => seen[k] > 1 && !k.startsWith('sphx')); }"""
    )
    assert twice == []


CONTRAST = """() => {
  const light = (c) => { const v = c.map(x => { x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
  const rgb = (s) => (s.match(/[\\d.]+/g) || []).map(Number);
  const ground = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0.9) return c.slice(0, 3); } return [255, 255, 255]; };
  const weak = [];
  for (const e of document.querySelectorAll('.lab *')) {
    if (!e.childNodes.length || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    if (!e.checkVisibility() || e.closest('svg') || e.closest('style, script, noscript')) continue;
    const a = light(rgb(getComputedStyle(e).color).slice(0, 3)), b = light(ground(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) weak.push(ratio.toFixed(2) + ' ' + e.className + ' ' + e.textContent.trim().slice(0, 30));
  }
  return weak; }"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", CHAPTERS)
def test_text_of_the_display_objects_has_contrast(open_page, name, theme):
    assert open_page(f"chapters/{name}", theme=theme).evaluate(CONTRAST) == []


@pytest.mark.parametrize("name", CHAPTERS)
def test_prediction_is_compared_by_keyboard(open_page, name):
    page = open_page(f"chapters/{name}")
    box = page.locator(".lab-predict-box").first
    answer = box.locator("output")
    box.locator("button").focus()
    page.keyboard.press("Enter")
    assert "Commit to an answer first" in answer.inner_text()
    if box.locator("input[type=radio]").count():
        box.locator("input[type=radio]").first.focus()
        page.keyboard.press("Space")
    else:
        box.locator("input").fill("4")
    page.keyboard.press("Enter")
    assert re.match(r"You said .+\. Measured: .+\.", answer.inner_text())


@pytest.mark.parametrize("name", CHAPTERS)
def test_chapter_is_whole_without_javascript(open_page, name):
    page = open_page(f"chapters/{name}", javascript=False)
    box = page.locator(".lab-predict-box").first
    box.locator("summary").click()
    assert box.locator("details p").inner_text()


@pytest.mark.parametrize("name", CHAPTERS)
def test_page_names_the_gpu_that_measured_it(open_page, name):
    text = open_page(f"chapters/{name}").locator("article").inner_text()
    assert re.search(r"NVIDIA .+, \d{4}-\d\d-\d\d, (live|replayed from the record)", text)
