"""Numbers in a text, as people write them: each with its place, and the range of values that its digits stand for.

A number stands for every value that rounds to it: 3,282 for 3,281.5 to 3,282.5, and 8.4 for 8.35 to 8.45. After a word
such as "about" its last digit that is not zero says how exact it is: about 3,300 stands for 3,250 to 3,350. Numbers after ±
belong to the number before them; days, and numbers within words (B12, 2nd, 1.2.3), are none.

The time is linear in the letters of the text: each expression is matched at each place for a bounded time or without going back,
the sentence of a number is found by bisection, and a range has two ends, so at most twice `MOST_NUMBERS` numbers are made.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from decimal import Decimal

from dpsql.frozen import Frozen

GROUPED = r"\d{1,3}(?:,\d{3})+(?![\d])|\d{1,3}(?:[\u00a0\u202f\u2009']\d{3})+(?![\d])|\d{1,30}"
UNIT = r"\s?(?:%|percent\b|per cent\b|thousand\b|million\b|billion\b|k\b)"
NUMBER = re.compile(rf"(?<![\w.,/\\-])(?P<sign>[-−+](?=\d))?(?P<digits>{GROUPED})(?P<decimals>\.\d{{1,20}})?"
                    rf"(?P<unit>{UNIT})?(?![\w\\/]|\.\d|,\d)", re.IGNORECASE)
MONEY = re.compile(r"[$€£](?=\d)")
DAY = re.compile(r"(?<!\d)\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?(?!\d)")
JOINED = re.compile(r"(?<=\d)-(?=\d)")  # a range that is written with a hyphen
APPROXIMATE = re.compile(r"(?:about|around|roughly|approximately|approx\.?|nearly|almost|some|circa|ca\.|~|≈)\s*$", re.IGNORECASE)
MARGIN = re.compile(r"(?:±|\+/-|plus or minus)\s*$", re.IGNORECASE)
BETWEEN = re.compile(r"\s*(?:to|and|–|—|-|…)\s*", re.IGNORECASE)
ITEM = re.compile(r"[.)](?:\s|$)")  # after the number of an item of a list
LONGEST_BULLET = 50  # letters before it in its line
BEFORE_RANGE = re.compile(r"(?:between|from)\s*$", re.IGNORECASE)
TIMES = {"thousand": 10**3, "k": 10**3, "million": 10**6, "billion": 10**9}
SENTENCE_ENDS = re.compile(r"(?<=[.!?;])\s+(?=[A-Z0-9*#(-])|\n+")
MOST_TEXT, MOST_NUMBERS = 100_000, 200


class WrittenNumber(Frozen):
    """A number in a text: what is written from `start` to `end`, the range of values it stands for, whether it is a percentage,
    and where its sentence begins and ends."""

    written: str
    start: int
    end: int
    low: float
    high: float
    percent: bool
    sentence: tuple[int, int]

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


def numbers_in(text: str) -> list[WrittenNumber]:
    """The numbers of a text, in order. Two that are joined to a range ("between 3,000 and 3,500") are one."""
    plain = JOINED.sub("–", DAY.sub(lambda day: " " * len(day.group()), MONEY.sub(" ", text[:MOST_TEXT])))
    found: list[WrittenNumber] = []
    sentences, is_range = Sentences(plain), False
    for match in NUMBER.finditer(plain):
        before = plain[max(0, match.start() - 30):match.start()]
        if MARGIN.search(before) or _numbers_a_line(plain, match):
            continue
        made = _number(match, sentences, is_approximate=APPROXIMATE.search(before) is not None)
        last = found[-1] if found else None
        is_range = last is not None and not is_range and _is_range(plain, last, made)
        if last is not None and is_range:
            found[-1] = _range(plain, last, made)
        else:
            found.append(made)
        if len(found) == MOST_NUMBERS:
            break
    return found


def _number(match: re.Match[str], sentences: Sentences, *, is_approximate: bool) -> WrittenNumber:
    digits, decimals = re.sub(r"\D", "", match["digits"]), match["decimals"] or ""
    unit = (match["unit"] or "").strip().lower()
    times = TIMES.get(unit, 1)
    value = Decimal(digits + decimals) * times
    zeros = len(digits) - len(digits.rstrip("0")) if is_approximate and not decimals and digits.strip("0") else 0
    half = Decimal(10) ** (zeros - max(len(decimals) - 1, 0)) * times / 2
    low, high = value - half, value + half
    if match["sign"] in ("-", "−"):
        low, high = -high, -low
    return WrittenNumber(written=match.group().strip(), start=match.start(), end=match.end(), low=float(low), high=float(high),
                         percent=unit in ("%", "percent", "per cent"), sentence=sentences.around(match.start()))


def _is_range(text: str, first: WrittenNumber, second: WrittenNumber) -> bool:
    joint = text[first.end:second.start]
    if not BETWEEN.fullmatch(joint) or first.middle >= second.middle or first.sentence != second.sentence:
        return False
    return joint.strip().lower() != "and" or BEFORE_RANGE.search(text[max(0, first.start - 30):first.start]) is not None


def _range(text: str, first: WrittenNumber, second: WrittenNumber) -> WrittenNumber:
    return WrittenNumber(written=text[first.start:second.end].strip(), start=first.start, end=second.end, low=first.low,
                         high=second.high, percent=second.percent, sentence=first.sentence)


def _numbers_a_line(text: str, match: re.Match[str]) -> bool:
    """Whether a number is the number of an item of a list, such as "2. " or "2) " at the beginning of a line."""
    first = max(0, match.start() - LONGEST_BULLET)
    line = text.rfind("\n", first, match.start()) + 1
    if not line and first:
        return False
    return not text[line:match.start()].strip(" *#-") and ITEM.match(text, match.end()) is not None


class Sentences:
    """Where the sentences of a text begin and end."""

    def __init__(self, text: str) -> None:
        ends = [match.span() for match in SENTENCE_ENDS.finditer(text)]
        self._starts, self._ends = [0, *(end for _, end in ends)], [*(start for start, _ in ends), len(text)]

    def around(self, place: int) -> tuple[int, int]:
        """The sentence with a letter of a number."""
        at = bisect_right(self._starts, place) - 1
        return self._starts[at], self._ends[at]
