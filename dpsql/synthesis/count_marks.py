"""The marks of pictures of counts, as parts of an SVG whose width is 100."""

from __future__ import annotations

SVG = "aria-hidden=true preserveAspectRatio=none"


def bar(x: float, width: float, y: float, height: float, colour: str = "bar") -> str:
    """A bar in a colour of the page."""
    return f"<rect x='{x:.3f}' width='{width:.3f}' y='{y:.2f}' height='{height:.2f}' fill='var(--{colour})'/>"


def whisker(path: str) -> str:
    """A thin line."""
    return f"<path class=whisker d='{path}'/>"


def across(low: float, middle: float, high: float) -> str:
    """The path of a whisker from left to right."""
    return f"M{low:.2f} 5H{high:.2f}M{low:.2f} 2.5V7.5M{high:.2f} 2.5V7.5M{middle:.2f} 1.5V8.5"
