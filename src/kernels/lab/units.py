"""Numbers as people read them: three significant digits and a prefix, from base units."""

import math

_PREFIXES = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")]
_SMALL = [(1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p")]


def digits(value: float, significant: int = 3) -> str:
    """Write `value` with so many significant digits and thousands separators, never in exponent form.

    >>> digits(1234.5), digits(0.98765), digits(12)
    ('1,230', '0.988', '12.0')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.{significant}g}")
    decimals = max(0, significant - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{decimals}f}"


def si(value: float, unit: str, significant: int = 3) -> str:
    """Write `value`, given in `unit`, with the decimal prefix that suits it.

    >>> si(4.36e12, "B/s"), si(1.38e-5, "s"), si(67e12, "FLOP/s")
    ('4.36 TB/s', '13.8 µs', '67.0 TFLOP/s')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    steps = _SMALL if unit == "s" else _PREFIXES
    # Compare after rounding, so that 999.9 kB/s becomes 1.00 MB/s and not 1,000 kB/s.
    size = abs(float(f"{value:.{significant}g}"))
    scale, prefix = next((step for step in steps if size >= step[0]), steps[-1])
    return f"{digits(value / scale, significant)} {prefix}{unit}"


def count(value: float) -> str:
    """Write a whole number: a power of two from 2^12 on as such, else with thousands separators.

    >>> count(2**22), count(1000), count(4096)
    ('2^22', '1,000', '2^12')
    """
    whole = int(value)
    if whole >= 4096 and whole & (whole - 1) == 0:
        return f"2^{whole.bit_length() - 1}"
    return f"{whole:,}"


def percent(fraction: float) -> str:
    """Write a fraction as a percentage.

    >>> percent(0.9083), percent(0.00456)
    ('91 %', '0.46 %')
    """
    return f"{digits(fraction * 100, 2)} %"
