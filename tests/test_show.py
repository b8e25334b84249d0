"""Display objects: the same content in HTML and in a terminal; claims and predictions."""

import pytest
from test_measure import SOURCE

from kernels.lab import claims, record
from kernels.lab.show import _mode, progress, show, table
from kernels.lab.units import count, digits, percent, si


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (4.36e12, "B/s", "4.36 TB/s"),
        (1.38e-5, "s", "13.8 µs"),
        (0.1613, "s", "161 ms"),
        (999.96e9, "B/s", "1.00 TB/s"),
        (67e12, "FLOP/s", "67.0 TFLOP/s"),
        (0, "s", "0 s"),
        (2.5, "s", "2.50 s"),
    ],
)
def test_quantities_get_three_digits_and_a_prefix(value, unit, text):
    assert si(value, unit) == text


def test_counts_and_shares_read_well():
    assert (count(2**22), count(1000), count(0)) == ("2^22", "1,000", "0")
    assert (percent(0.9083), percent(0.0046)) == ("91 %", "0.46 %")
    assert (digits(218.4), digits(0.0999)) == ("218", "0.0999")


def test_progress_says_how_far_the_work_is_and_clears_its_line(capsys, monkeypatch):
    monkeypatch.setattr(_mode, "home", lambda: "notebook")
    assert list(progress(["a", "b"], "measuring add")) == ["a", "b"]
    said = capsys.readouterr().err
    assert "measuring add: 2 of 2" in said
    assert said.endswith("\r")


def test_table_escapes_its_cells(monkeypatch):
    monkeypatch.setattr(_mode, "home", lambda: "page")
    html = table(["a<b"], [["<script>"]])._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_numbers_are_aligned_to_the_right():
    text = str(table(["what", "n"], [["x", "1"], ["y", "1,000"]]))
    assert "x         1" in text


def test_ragged_row_is_refused():
    with pytest.raises(ValueError, match="2 columns"):
        table(["a", "b"], [["1"]])


def test_show_prints_in_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(_mode, "home", lambda: "terminal")
    assert show(table(["a"], [["1"]])) is None
    assert "a" in capsys.readouterr().out


def test_show_returns_html_in_a_page(monkeypatch):
    monkeypatch.setattr(_mode, "home", lambda: "page")
    assert "<table>" in show(table(["a"], [["1"]]))._repr_html_()


@pytest.fixture
def on_reference(monkeypatch):
    monkeypatch.setattr(record, "current", lambda: SOURCE)
    monkeypatch.setenv("KERNELS_STRICT", "1")


def test_true_claim_shows_its_value(on_reference):
    made = claims.claim("Fast.", 218.4, at_least=100, unit="times")
    assert made.holds
    assert "measured 218 times, claimed at least 100 times" in str(made)


@pytest.mark.parametrize("value", [99.0, float("nan")])
def test_false_claim_fails_a_strict_build(on_reference, value):
    with pytest.raises(claims.ClaimError, match="Fast"):
        claims.claim("Fast.", value, at_least=100)


def test_false_claim_elsewhere_is_shown_as_such(monkeypatch):
    monkeypatch.setenv("KERNELS_STRICT", "1")
    other = record.Source(**{**SOURCE.__dict__, "gpu": "Tesla T4", "is_reference": False})
    monkeypatch.setattr(record, "current", lambda: other)
    made = claims.claim("Fast.", 99, at_least=100)
    assert not made.holds
    assert "does not hold here" in str(made)
    assert "does not hold here" in made._repr_html_()


def test_claim_without_a_bound_is_refused():
    with pytest.raises(ValueError, match="no bound"):
        claims.claim("Fast.", 1.0)


def test_prediction_hides_the_answer_until_asked(monkeypatch):
    monkeypatch.setattr(_mode, "home", lambda: "page")
    html = claims.predict("How many?", "218 times", unit="times")._repr_html_()
    visible = html.split("<noscript>")[0]
    assert "218" not in visible.replace('data-measured="218 times"', "")
    assert "<details>" in html.split("<noscript>")[1]
