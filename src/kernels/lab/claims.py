"""Claims and predictions: what a chapter asserts about its numbers, and what the reader expects of them."""

import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from kernels.lab import _mode, record
from kernels.lab.show import escape, fold_html, wrap
from kernels.lab.units import digits


class ClaimError(AssertionError):
    """A claim does not hold on the GPU for which it is made."""


@dataclass(frozen=True)
class Claim:
    """A sentence about a measured value, with the bound that makes it true."""

    text: str
    value: float
    at_least: float | None
    at_most: float | None
    unit: str
    on: str

    @property
    def holds(self) -> bool:
        """Whether the value is inside its bounds. NaN never is."""
        above = self.at_least is None or self.value >= self.at_least
        below = self.at_most is None or self.value <= self.at_most
        return above and below and self.value == self.value

    @property
    def evidence(self) -> str:
        """The measured value and the bound, in words."""
        bounds = []
        if self.at_least is not None:
            bounds.append(f"at least {digits(self.at_least)}")
        if self.at_most is not None:
            bounds.append(f"at most {digits(self.at_most)}")
        unit = f" {self.unit}" if self.unit else ""
        return f"measured {digits(self.value)}{unit}, claimed {' and '.join(bounds)}{unit} ({self.on})"

    def __str__(self) -> str:
        tail = (
            ""
            if self.holds
            else "\n  It does not hold here: another GPU can have another balance of memory and arithmetic."
        )
        return f"{'✓' if self.holds else '✗'} {self.text}\n  {self.evidence}{tail}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        mark = (
            '<span class="lab-good">✓ holds</span>'
            if self.holds
            else '<span class="lab-wrong">✗ does not hold here</span>'
        )
        why = "" if self.holds else "<p>Another GPU can have another balance of memory and arithmetic.</p>"
        kind = "lab-claim" if self.holds else "lab-claim lab-fails"
        return wrap(
            f'<p>{escape(self.text)} {mark}</p><p class="lab-note">{escape(self.evidence)}</p>{why}',
            kind=kind,
        )


def claim(
    text: str, value: float, *, at_least: float | None = None, at_most: float | None = None, unit: str = ""
) -> Claim:
    """Assert something about a measured value, and show the value beside the assertion.

    Parameters
    ----------
    text
        The claim, a sentence.
    value
        The measured value, in `unit`.
    at_least, at_most
        The bounds that make the claim true; one of them or both.

    Raises
    ------
    ClaimError
        The claim is false on the reference GPU and the build is strict. On another GPU the page says that it does
        not hold there.
    ValueError
        No bound is given.
    """
    if at_least is None and at_most is None:
        raise ValueError(f"the claim {text!r} has no bound: give at_least, at_most or both")
    source = record.current()
    made = Claim(text, float(value), at_least, at_most, unit, source.gpu)
    if not made.holds and source.is_reference and _mode.strict():
        raise ClaimError(f"{made}\n  Measure again, or mend the claim: a published page must not state it.")
    return made


@dataclass(frozen=True)
class Prediction:
    """A question whose answer the reader commits to before the measured one is shown."""

    question: str
    measured: str
    choices: Sequence[str]
    unit: str
    mine: str = ""

    def __str__(self) -> str:
        lines = [f"? {self.question}"]
        lines += [f"  ( ) {choice}" for choice in self.choices]
        said = f"You said {self.mine}. " if self.mine else ""
        return "\n".join([*lines, f"  {said}Measured: {self.measured}"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        name = f"predict-{zlib.crc32(self.question.encode())}"
        if self.choices:
            asked = "".join(
                f'<label><input type="radio" name="{name}" value="{escape(c)}"> {escape(c)}</label>'
                for c in self.choices
            )
        else:
            asked = f'<label>Your prediction <input type="text" inputmode="decimal" autocomplete="off"> {escape(self.unit)}</label>'
        folded = fold_html("Show the measured answer", f"<p>{escape(self.measured)}</p>")
        return wrap(
            f'<fieldset class="lab-predict-box" data-measured="{escape(self.measured)}" data-unit="{escape(self.unit)}">'
            f"<legend>Predict</legend><p>{escape(self.question)}</p>{asked} "
            f'<button type="button">Compare with the measurement</button><output aria-live="polite"></output>'
            f"<noscript>{folded}</noscript></fieldset>",
            kind="lab-predict",
        )


def predict(question: str, measured: str, *, choices: Sequence[str] = (), unit: str = "") -> Prediction:
    """Ask the reader for a number or a choice, then set the measured answer beside it.

    Parameters
    ----------
    question
        What to predict.
    measured
        The measured answer as text, unit included; it comes from a measurement, never from the keyboard.
    choices
        The answers to choose from; without them the reader types a number.
    unit
        The unit of a typed number.

    In a terminal with a keyboard the question is asked there and then; an empty answer skips it. The answer is kept
    nowhere.
    """
    mine = ""
    if _mode.home() == "terminal" and sys.stdin.isatty() and sys.stdout.isatty():
        listed = f" ({' / '.join(choices)})" if choices else ""
        mine = input(f"? {question}{listed} [{unit or 'answer'}, Enter skips] ").strip()
    return Prediction(question, measured, choices, unit, mine)
