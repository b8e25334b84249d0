"""A trace in a real browser: driven by mouse and by keyboard, without scripts, in both themes, wide and narrow."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trace_kernels as kernels

from kernels.lab.trace import trace

pytestmark = pytest.mark.site

LOAD_X, LOAD_Y = 6, 7  # where the statements stand in add_kernel


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two traces that carry their own style and script, as a notebook does."""
    types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}
    add = trace(kernels.add_kernel, **types, BLOCK_SIZE=1024, target="sm_90")
    softmax = trace(kernels.softmax_kernel, "*fp32", "*fp32", "i32", "i32", BLOCK_SIZE=1024, target="sm_90")
    body = "".join(each._repr_html_() for each in (add, softmax))
    path = tmp_path_factory.mktemp("trace") / "page.html"
    path.write_text(f'<!doctype html><meta charset="utf-8"><title>Traces</title>{body}', encoding="utf-8")
    return path


@pytest.fixture
def open_page(browser: Any, file: Path) -> Iterator[Callable[..., Any]]:
    opened = []

    def open_(*, width: int = 1280, theme: str = "light", javascript: bool = True) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, java_script_enabled=javascript
        )
        opened.append(context)
        page = context.new_page()
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.goto(file.as_uri())
        return page

    yield open_
    for context in opened:
        assert not [error for page in context.pages for error in page.errors]
        context.close()


@pytest.fixture
def page(open_page: Callable[..., Any]) -> Any:
    return open_page()


def first(page: Any) -> Any:
    return page.locator(".lab-trace").first


def python_line(page: Any, number: int) -> Any:
    return first(page).locator(f'.lab-trace-python .tl[data-n="{number}"]')


def lit(page: Any, stage: str) -> list[str]:
    """The lines of a stage, or of Python, that are lit."""
    pane = ".lab-trace-python" if stage == "python" else f'[data-stage="{stage}"]'
    return [text.strip() for text in first(page).locator(f"{pane} .tl.is-lit").all_text_contents()]


# --- by mouse --------------------------------------------------------------------------------------------------------


def test_pointing_at_python_lights_what_it_became_in_every_stage(page: Any):
    python_line(page, LOAD_X).hover()
    assert sum("ld.global.v4" in text for text in lit(page, "ptx")) == 2
    assert sum("LDG.E.128" in text for text in lit(page, "sass")) == 2
    assert any("tt.load" in text for text in lit(page, "ttir"))
    assert re.fullmatch(r"Line 6 became .*\d+ lines of PTX, \d+ lines of SASS\.", status(page))


def test_pointing_at_an_instruction_lights_its_python(page: Any):
    first(page).locator('[data-stage="ptx"] .tl', has_text="st.global").first.hover()
    assert lit(page, "python") == ["tl.store(out_ptr + offsets, x + y, mask=mask)"]
    assert "came from line 11" in status(page)


def test_a_statement_over_several_lines_lights_as_one(page: Any):
    python_line(page, LOAD_Y + 2).hover()
    assert len(lit(page, "python")) == 4
    assert sum("ld.global.v4" in text for text in lit(page, "ptx")) == 2


def test_leaving_lets_go_and_a_click_holds(page: Any):
    line = python_line(page, LOAD_X)
    line.hover()
    page.mouse.move(2, 2)
    assert lit(page, "ptx") == []
    line.click()
    page.mouse.move(2, 2)
    assert lit(page, "ptx")
    assert line.evaluate("line => line.classList.contains('is-pinned')")
    line.click()
    assert not line.evaluate("line => line.classList.contains('is-pinned')")


def test_a_helper_and_its_call_light_together(page: Any):
    other = page.locator(".lab-trace").nth(1)
    other.get_by_role("tab", name="Triton IR").click()
    other.locator('[data-stage="ttir"] .tl', has_text="math.exp").hover()
    lines = [text.strip() for text in other.locator(".lab-trace-python .is-lit").all_text_contents()]
    assert lines == ["weights = shifted_exp(x)", "return tl.exp(x - top)"]


def status(page: Any) -> str:
    return first(page).locator(".lab-trace-status").text_content()


# --- by keyboard -----------------------------------------------------------------------------------------------------


def test_the_whole_trace_is_driven_by_keyboard(page: Any):
    python_line(page, 2).focus()
    for _ in range(3):  # the docstring between became nothing, and is passed over
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.n") == str(LOAD_X)
    assert sum("ld.global.v4" in text for text in lit(page, "ptx")) == 2
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.closest('details').dataset.stage") == "ptx"
    assert page.evaluate("document.activeElement.dataset.o") == str(LOAD_X)
    assert lit(page, "python") == ["x = tl.load(x_ptr + offsets, mask=mask)"]
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    assert sum("%rd1 + 0" in text for text in lit(page, "ptx")) == 1, "the pinned line stays lit"
    page.keyboard.press("Escape")
    assert lit(page, "ptx") == []


def test_tab_stops_once_in_each_part(page: Any):
    python_line(page, 2).focus()
    stops = []
    for _ in range(2):
        page.keyboard.press("Tab")
        stops.append(page.evaluate("document.activeElement.getAttribute('role')"))
    assert stops == ["tab", "option"]


def test_stages_are_picked_with_the_arrow_keys(page: Any):
    first(page).get_by_role("tab", name="PTX").focus()
    page.keyboard.press("ArrowRight")
    assert first(page).get_by_role("tab", name="SASS").get_attribute("aria-selected") == "true"
    assert first(page).locator('[data-stage="sass"]').is_visible()
    assert not first(page).locator('[data-stage="ptx"]').is_visible()


def test_the_focused_line_is_seen(page: Any):
    python_line(page, 2).focus()
    page.keyboard.press("ArrowDown")
    style = "getComputedStyle(document.activeElement)"
    assert page.evaluate(f"{style}.outlineStyle") == "solid"
    assert page.evaluate(f"parseFloat({style}.outlineWidth)") >= 2


def test_the_page_itself_does_not_scroll_when_a_pane_does(page: Any):
    before = page.evaluate("scrollY")
    python_line(page, 11).hover()
    pane = first(page).locator('[data-stage="ptx"] pre')
    assert pane.evaluate("pane => pane.scrollTop") > 0
    assert page.evaluate("scrollY") == before


# --- without scripts, in both themes, wide and narrow -------------------------------------------------------------------


def test_without_scripts_every_stage_opens_and_says_its_python_lines(open_page: Callable[..., Any]):
    page = open_page(javascript=False)
    stages = first(page).locator("details")
    assert stages.count() == 5
    assert first(page).locator('[data-stage="ptx"]').get_by_text("ld.global.v4").first.is_visible()
    sass = first(page).locator('[data-stage="sass"]')
    sass.locator("summary").click()
    assert sass.get_by_text("LDG.E.128").first.is_visible()
    assert sass.locator('.tl[data-n="6"]').count() > 0


@pytest.mark.parametrize("width", [390, 1280])
def test_the_panes_scroll_and_the_page_does_not(open_page: Callable[..., Any], width: int):
    page = open_page(width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    python, stage = (
        first(page).locator(f".lab-trace-{part}").bounding_box() for part in ("python", "stages")
    )
    side_by_side = stage["x"] > python["x"] + python["width"] / 2
    assert side_by_side == (width == 1280)


# Paint an element's backgrounds from the page up to it, then its colour: the canvas mixes what is translucent.
CONTRAST = """element => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const paint = (colour) => { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); };
  const light = () => {
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const above = [];
  for (let e = element; e; e = e.parentElement) above.unshift(getComputedStyle(e).backgroundColor);
  paint("white");
  above.forEach(paint);
  const behind = light();
  paint(getComputedStyle(element).color);
  const [low, high] = [behind, light()].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_colour_is_legible_on_a_lit_line(open_page: Callable[..., Any], theme: str):
    page = open_page(theme=theme)
    python_line(page, LOAD_X).click()
    pieces = first(page).locator(".tl, .tl span")
    ratios = pieces.evaluate_all(f"all => all.map((each) => [each.className, ({CONTRAST})(each)])")
    assert {"tl is-lit", "nf", "m", "k", "s", "nd"} <= {name for name, _ in ratios}
    assert [(name, ratio) for name, ratio in ratios if ratio < 4.5] == []
