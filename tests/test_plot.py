"""Plots: inline SVG that follows the theme, fits a phone, says in words what it shows, and leaves nothing behind."""

import html
import re
import subprocess
import sys
from itertools import combinations

import matplotlib
import pytest

from kernels import lab  # noqa: F401  (before Triton)
from kernels.lab import record
from kernels.lab._axes import Axis, text_width
from kernels.lab._placing import Box, Spot, around, crosses, place, spread, wrap
from kernels.lab._svg import COLOURS, NARROW, WIDE, DrawingError, render
from kernels.lab.measure import Comparison, Measurement, Row
from kernels.lab.plot import Line, Plot, plot
from kernels.lab.show import Table

SOURCE = record.Source(
    "NVIDIA H200", False, False, True, "2026-01-02", "abc", "1", "13", "2", "3", "3.12", "m"
)
SIZES = [2**k for k in range(12, 29, 2)]
TABLE = Table(("n", "GB/s"), [("1", "2.0")])


def curve(label: str, peak: float) -> Line:
    return Line(label, SIZES, [peak * n / (n + 2**20) for n in SIZES])


@pytest.fixture
def crowded() -> Plot:
    """Five rivals that end at nearly the same value, and one far below."""
    peaks = {
        "torch.add": 4.35e12,
        "Triton, blocks": 4.36e12,
        "CUDA C++, float4": 4.37e12,
        "torch.compile": 4.3e12,
    }
    lines = [curve(label, peak) for label, peak in peaks.items()]
    return plot(
        [*lines, curve("one element per program", 2e10)],
        "elements",
        "bandwidth",
        y_unit="B/s",
        title="Blocks reach the roof",
        ours="Triton, blocks",
        ceilings={"HBM, measured": 4.5e12},
        region=("launch-bound", 2**10, 2**18),
    )


def svgs(plot: Plot) -> dict[str, str]:
    """The two drawings of a plot, by the class that says where they are shown."""
    found = re.findall(r'<svg class="lab-plot-(\w+)".*?</svg>', plot._repr_html_(), flags=re.DOTALL)
    whole = re.findall(r"<svg .*?</svg>", plot._repr_html_(), flags=re.DOTALL)
    return dict(zip(found, whole, strict=True))


def text_boxes(svg: str) -> list[tuple[str, Box]]:
    """Where the upright texts of a drawing lie, as wide as matplotlib's own font makes them."""
    found = []
    for style, attributes, text in re.findall(r'<text style="([^"]*)"([^>]*)>([^<]*)</text>', svg):
        if not (size := re.search(r"font-size: ([\d.]+)px", style)) or not text.strip():
            continue
        place = re.search(r'x="([-\d.]+)" y="([-\d.]+)"|translate\(([-\d.]+) ([-\d.]+)\)', attributes)
        turned = re.search(r"rotate\(([-\d.]+)", attributes)
        if turned and float(turned[1]) != 0:
            continue
        assert place is not None
        x, y = (float(value) for value in place.groups() if value is not None)
        width = text_width(html.unescape(text), float(size[1]))
        anchor = {"middle": 0.5, "end": 1.0}.get(
            (re.search(r"text-anchor: (\w+)", style) or [""] * 2)[1], 0.0
        )
        left = x - anchor * width
        # From the baseline: what most letters fill. Lines of one label may stand close, not overlap.
        found.append((text, Box(left, y - 9, left + width, y + 1)))
    return found


def overlapping(svg: str) -> list[tuple[str, str]]:
    return [(a, b) for (a, one), (b, other) in combinations(text_boxes(svg), 2) if one.overlaps(other)]


# --- the drawing ---------------------------------------------------------------------------------------------------------


def test_a_plot_is_shown_wide_and_narrow_with_text_of_one_size(crowded):
    drawings = svgs(crowded)
    assert set(drawings) == {"wide", "narrow"}
    sizes = {kind: set(re.findall(r"font-size: [\d.]+px", svg)) for kind, svg in drawings.items()}
    assert sizes["wide"] == sizes["narrow"] == {"font-size: 13px", "font-size: 12px"}


@pytest.mark.parametrize("kind", ["wide", "narrow"])
def test_no_text_of_a_crowded_plot_hides_another(crowded, kind):
    assert len(text_boxes(svgs(crowded)[kind])) > 12
    assert overlapping(svgs(crowded)[kind]) == []


@pytest.mark.parametrize("kind", ["wide", "narrow"])
def test_text_stays_inside_the_drawing(crowded, kind):
    svg = svgs(crowded)[kind]
    width, height = (float(v) for v in re.search(r'viewBox="0 0 (\d+) (\d+)"', svg).groups())
    assert all(box.inside(Box(-1, 0, width + 1, height)) for _, box in text_boxes(svg))


def test_colours_are_the_page_s_variables(crowded):
    for svg in svgs(crowded).values():
        assert set(re.findall(r"var\(--lab-(\w+)\)", svg)) >= {"text", "muted", "rule", "memory", "ours"}
        assert not re.search(r"#[0-9a-fA-F]{6}\b", svg)


def test_a_colour_that_does_not_follow_the_theme_is_refused():
    with pytest.raises(DrawingError, match="#1f77b4"):
        render(lambda figure, size: figure.add_axes((0, 0, 1, 1)).plot([1, 2]), WIDE, "p")


def test_drawing_is_the_same_bytes_each_time(crowded):
    assert crowded._repr_html_() == crowded._repr_html_()


def test_drawing_brings_no_style_font_or_address_of_its_own(crowded):
    for svg in svgs(crowded).values():
        assert not re.search(r"<style|font-family|https?:|<metadata|<image", svg)


def test_ids_are_unique_on_a_page_and_every_reference_is_met(crowded):
    other = plot([curve("a", 1e12)], "n", "bandwidth", y_unit="B/s", title="Another")
    page = crowded._repr_html_() + other._repr_html_()
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)) > 0
    references = {one or two for one, two in re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', page)}
    assert references == set(ids)


def test_reader_s_matplotlib_is_left_as_it_was(crowded):
    before = dict(matplotlib.rcParams)
    crowded._repr_html_()
    assert dict(matplotlib.rcParams) == before


def test_a_reader_s_own_style_does_not_change_a_plot(crowded):
    before = crowded._repr_html_()
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "lines.linewidth": 9}):
        assert crowded._repr_html_() == before


def test_plots_are_made_without_pyplot():
    code = (
        "import sys; from kernels.lab.plot import *; from kernels.lab.plot import Line;"
        "plot([Line('a', [1, 2], [1, 2])], 'x', 'y', title='t')._repr_html_();"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_text_is_text_even_with_dollars_and_angles():
    svg = render(lambda figure, size: figure.text(0, 0, "$a$ < b²", color=COLOURS["text"]), NARROW, "p")
    assert ">$a$ &lt; b²</text>" in svg


# --- words and numbers -----------------------------------------------------------------------------------------------------


def test_a_plot_without_words_is_refused():
    with pytest.raises(ValueError, match="text alternative"):
        Plot("title", lambda figure, size: None, " ", TABLE)


def test_each_drawing_is_an_image_with_title_and_words(crowded):
    for svg in svgs(crowded).values():
        assert 'role="img"' in svg
        label = html.unescape(re.search(r'aria-label="([^"]*)"', svg)[1])
        assert label == f"{crowded.title}. {crowded.alt}"


def test_data_is_there_as_a_folded_table(crowded):
    folded = re.search(r"<details>.*</details>", crowded._repr_html_(), flags=re.DOTALL)[0]
    assert "<table>" in folded
    assert "one element per program" in folded


def test_a_terminal_prints_title_words_and_table(crowded):
    lines = str(crowded).splitlines()
    assert lines[0] == "Blocks reach the roof"
    assert crowded.alt in lines
    assert "2^28" in lines[-1]


def test_words_state_ends_ceiling_and_region(crowded):
    assert "Triton, blocks: from 17.0 GB/s at 2^12 to 4.34 TB/s at 2^28." in crowded.alt
    assert "For reference, HBM, measured: 4.50 TB/s." in crowded.alt
    assert "Shaded up to 2^18: launch-bound." in crowded.alt


def test_words_name_a_peak_between_the_ends():
    shown = plot([Line("a", [1, 2, 4], [1e-3, 5e-3, 2e-3])], "x", "time", y_unit="s", title="t")
    assert "a: from 1.00 ms at 1 to 2.00 ms at 4; highest 5.00 ms at 2." in shown.alt


# --- axes --------------------------------------------------------------------------------------------------------------------


def test_a_logarithmic_axis_says_so_and_a_linear_one_does_not():
    shown = plot([curve("a", 1e12)], "elements", "bandwidth", y_unit="B/s", title="t")
    assert "elements, log scale" in svgs(shown)["wide"]
    assert "bandwidth [TB/s]" in svgs(shown)["wide"]
    assert "the horizontal axis logarithmic" in shown.alt


def test_times_of_a_sweep_are_logarithmic_both_ways(comparison):
    shown = plot(comparison, "n", "seconds", title="t")
    assert "both axes logarithmic" in shown.alt
    assert "time of one call [s], log scale" in svgs(shown)["narrow"]


@pytest.mark.parametrize(
    ("axis", "most", "texts"),
    [
        (Axis("n", "", True, 2**12, 2**28, binary=True), 8, ["2¹²", "2¹⁶", "2²⁰", "2²⁴", "2²⁸"]),
        (Axis("block", "", True, 1, 2**10, binary=True), 7, ["1", "4", "16", "64", "256", "1,024"]),
        (Axis("set", "B", True, 2**14, 2**26, binary=True), 4, ["64 KiB", "1 MiB", "16 MiB"]),
        (Axis("time", "s", True, 2e-6, 0.2), 7, ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]),
        (Axis("latency", "s", True, 30e-9, 600e-9), 7, ["50 ns", "100 ns", "200 ns", "500 ns"]),
        (Axis("rate", "FLOP/s", True, 1e9, 1e15), 4, ["10 G", "1 T", "100 T"]),
        (Axis("intensity", "FLOP/B", True, 0.05, 2000), 8, ["0.1", "1", "10", "100", "1,000"]),
        (Axis("bandwidth", "B/s", False, 0, 4.2e12), 5, ["0", "1", "2", "3", "4"]),
    ],
)
def test_ticks_are_round_and_carry_their_prefix(axis, most, texts):
    assert [axis.text(tick) for tick in axis.ticks(most)] == texts


def test_zero_has_no_place_on_a_logarithmic_axis():
    with pytest.raises(ValueError, match="logarithmic axis has no place for 0"):
        plot([Line("a", [0, 1], [1, 2])], "x", "y", title="t")


def test_a_value_that_is_not_a_number_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        plot([Line("a", [1, 2], [1, float("nan")])], "x", "y", title="t")


def test_nothing_to_plot_is_refused():
    with pytest.raises(ValueError, match="nothing to plot"):
        plot([], "x", "y", title="t")


def test_a_line_whose_lists_differ_in_length_is_refused():
    with pytest.raises(ValueError, match="3 values of x, but 2 of y"):
        Line("a", [1, 2, 3], [1, 2])


# --- measurements --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def comparison() -> Comparison:
    rows = tuple(Row({"n": n}, n * 1e-9, n * 0.8e-9, n * 2e-9, bytes=12.0 * n) for n in (2**20, 2**22))
    short = (Row({"n": 2**20}, 1.0, 1.0, 1.0, bytes=12.0 * 2**20),)
    return Comparison(
        "add",
        {
            "fast": Measurement("add", "fast", rows, SOURCE),
            "short": Measurement("add", "short", short, SOURCE, dropped=({"n": 2**22},)),
        },
    )


def test_a_sweep_s_plot_says_where_its_numbers_come_from_and_what_was_left_out(comparison):
    notes = plot(comparison, "n", "bandwidth", title="t").notes
    assert SOURCE.line in notes
    assert any("Left out" in note for note in notes)


def test_the_band_of_a_bandwidth_reaches_from_slow_to_fast(comparison):
    from kernels.lab.plot import _line

    line = _line(comparison["fast"], "n", "bandwidth")
    assert line.low == pytest.approx([6e9, 6e9])
    assert line.y == pytest.approx([12e9, 12e9])
    assert line.high == pytest.approx([15e9, 15e9])


def test_a_sweep_in_which_more_varies_is_refused():
    rows = tuple(Row({"n": 4, "width": w}, 1.0, 1.0, 1.0) for w in (1, 2))
    with pytest.raises(ValueError, match="more than n varies"):
        plot({"a": Measurement("add", "a", rows, SOURCE)}, "n", "seconds", title="t")


def test_an_unknown_quantity_is_refused(comparison):
    with pytest.raises(ValueError, match="bandwidth, rate, seconds"):
        plot(comparison, "n", "speed", title="t")


# --- where labels go -------------------------------------------------------------------------------------------------------------


def test_spread_leaves_labels_with_room_where_they_are():
    assert spread([10, 50, 90], [10, 10, 10], 0, 100) == [10, 50, 90]


def test_spread_parts_labels_evenly_around_where_they_want_to_be():
    assert spread([50, 50], [10, 10], 0, 100) == [45, 55]


def test_spread_keeps_the_order_and_stays_inside():
    middles = spread([99, 98, 100, 1], [10, 10, 10, 10], 0, 100)
    assert middles == [85, 75, 95, 5]


def test_spread_shares_what_room_there_is():
    assert spread([0, 0, 0, 0], [10] * 4, 0, 20) == [2.5, 7.5, 12.5, 17.5]


def test_place_avoids_labels_and_points():
    points = [(50.0 + 3 * i, 50.0) for i in range(4)]
    taken = [Box(x - 3, y - 3, x + 3, y + 3) for x, y in points]
    spots = place([around(x, y, 30, 10, gap=6) for x, y in points], bounds=Box(0, 0, 120, 100), points=taken)
    assert not any(a.box.overlaps(b.box) for a, b in combinations(spots, 2))
    assert not any(spot.box.overlaps(point) for spot in spots for point in taken)
    assert all(spot.box.inside(Box(0, 0, 120, 100)) for spot in spots)


def test_place_prefers_the_cheaper_spot():
    near, far = Spot(Box(0, 0, 1, 1), 1.0), Spot(Box(5, 5, 6, 6), 2.0)
    assert place([[far, near]], bounds=Box(0, 0, 10, 10)) == [near]


@pytest.mark.parametrize(
    ("segment", "hit"),
    [
        ((-1, 5, 11, 5), True),
        ((5, -5, 5, -1), False),
        ((-1, 9, 1, 11), False),
        ((2, 2, 3, 3), True),
        ((5, 5, 5, 5), True),
    ],
)
def test_a_line_crosses_a_box(segment, hit):
    assert crosses(segment, Box(0, 0, 10, 10)) is hit


def test_wrap_breaks_at_spaces_only():
    assert wrap("one element per program", 12, len) == "one element\nper program"
    assert wrap("unbreakable", 3, len) == "unbreakable"
