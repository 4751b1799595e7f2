"""Workloads of publications, with the numbers printed there and the optima certified for them.

Fitness for use: Xiao, He, Zhang and Kifer, Optimizing Fitness-For-Use of Differentially Private Linear Queries, PVLDB 14(10), 2021.
Its random workloads are those of numpy's legacy generator with seed 0 and the calls below, in this order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from dpsql.frozen import Frozen
from dpsql.workload.domain import domain
from dpsql.workload.factors import AllRange, Dense, Factor, Identity, Prefix, Ranges, Total
from dpsql.workload.workload import Product, Workload, reduced

METHODS = ("IP", "HM", "CA", "wCA-I", "wCA-II")


class Case(Frozen):
    """`published` are the ratios of the largest variance to its target at the cost found there, for METHODS; `optimum` is certified."""

    table: str
    name: str
    workload: Workload
    targets: np.ndarray
    published: tuple[float, ...] = ()
    optimum: float = 0.0

    @property
    def small(self) -> Workload:
        """Without columns that are zero or occur twice."""
        return reduced(self.workload).workload


def line(*factors: Factor) -> Workload:
    """Queries over one attribute."""
    return Workload(domain(factors[0].n), tuple(Product((factor,)) for factor in factors))


def products(factors: Sequence[Factor], sizes: Sequence[int]) -> Workload:
    """All products of so many of the attributes' factors."""
    parts = [Product(tuple(factor if i in axes else Total(factor.n) for i, factor in enumerate(factors)))
             for size in sizes for axes in combinations(range(len(factors)), size)]
    return Workload(domain(*(factor.n for factor in factors)), tuple(parts))


def prefix(size: int, published: float, optimum: float) -> Case:
    return Case(table="2", name=f"prefix {size}, SM-II {published}" if published else f"prefix {size}", workload=line(Prefix(size)),
                targets=np.ones(size), optimum=optimum)


def pl94() -> Case:
    shape = (2, 2, 63)
    parts = [Product(tuple(Identity(n) if i == at else Total(n) for i, n in enumerate(shape))) for at in range(3)]
    parts.append(Product(tuple(Identity(n) for n in shape)))
    return Case(table="4", name="PL94", workload=Workload(domain(*shape), tuple(parts)), targets=np.ones(319),
                published=(36.56, 13.93, 3.99, 3.99, 3.99), optimum=3.013432)


def age() -> Case:
    ages = Dense(np.triu(np.ones((116, 116), dtype=np.int64)))
    workload = Workload(domain(2, 116), (Product((Identity(2), ages)), Product((Total(2), ages))))
    return Case(table="9", name="age pyramids", workload=workload, targets=np.ones(348), published=(32.49, 6.2, 1.58, 1.58, 1.58),
                optimum=6.997509)


def ranges(size: int, published: tuple[float, ...], optimum: float, *, fixed: bool) -> Case:
    random = np.random.RandomState(0)
    lows, highs, targets = [], [], []
    for _ in range(2 * size):
        a, b = random.randint(size), random.randint(size)
        targets.append(1.0 if fixed else float(random.randint(1, 11)))
        lows.append(min(a, b))
        highs.append(max(a, b))
    return Case(table="5" if fixed else "6", name=f"ranges {size}", workload=line(Ranges(size, tuple(lows), tuple(highs))),
                targets=np.array(targets), published=published, optimum=optimum)


def signs(size: int, published: tuple[float, ...], optimum: float, *, fixed: bool) -> Case:
    random = np.random.RandomState(0)
    matrix = 2 * random.choice(2, [2 * size, size]) - 1
    targets = np.ones(2 * size) if fixed else random.randint(1, 11, 2 * size).astype(float)
    return Case(table="7" if fixed else "8", name=f"signs {size}", workload=line(Dense(matrix)), targets=targets, published=published,
                optimum=optimum)


def marginals(size: int, published: tuple[float, ...], optimum: float) -> Case:
    return Case(table="10", name=f"1+2-way of {size}^3", workload=products([Identity(size)] * 3, (1, 2)),
                targets=np.ones(3 * size + 3 * size**2), published=published, optimum=optimum)


def related(size: int, published: tuple[float, ...], optimum: float) -> Case:
    random = np.random.RandomState(0)
    right = random.normal(0, 1, [size // 2, size])
    left = random.normal(0, 1, [size // 2, size // 2])
    return Case(table="11", name=f"related {size}", workload=line(Dense(left @ right)), targets=np.ones(size // 2), published=published,
                optimum=optimum)


def fitness_cases(largest: int) -> list[Case]:
    """Tables 2 and 4 to 11, up to so many cells."""
    return [
        *(prefix(*row) for row in ((2, 1.33, 4 / 3), (4, 1.76, 1.758601), (8, 2.28, 2.281561), (16, 2.91, 2.905253),
                                   (64, 4.46, 4.457869), (256, 0.0, 6.414651), (1024, 0.0, 8.770274)) if row[0] <= largest),
        pl94(),
        *(ranges(size, cells, optimum, fixed=True) for size, cells, optimum in (
            (64, (10.63, 2.84, 1.27, 1.27, 1.27), 5.634059), (128, (17.45, 3.48, 1.25, 1.25, 1.25), 7.085),
            (256, (28.43, 3.9, 1.29, 1.29, 1.29), 8.756345), (512, (47.36, 4.68, 1.23, 1.23, 1.23), 10.57955),
            (1024, (77.26, 5.42, 1.24, 1.24, 1.24), 12.726318)) if size <= largest),
        *(ranges(size, cells, optimum, fixed=False) for size, cells, optimum in (
            (64, (16.04, 4.63, 2.53, 1.62, 1.98), 2.95588), (128, (21.28, 5.87, 2.14, 1.49, 1.75), 3.987415),
            (256, (41.76, 6.05, 1.91, 1.45, 1.69), 5.369902), (512, (71.51, 7.35, 1.8, 1.46, 1.52), 6.512223),
            (1024, (109.34, 7.68, 1.69, 1.43, 1.49), 8.257862)) if size <= largest),
        *(signs(size, cells, optimum, fixed=True) for size, cells, optimum in (
            (64, (1.14, 2.29, 1.14, 1.14, 1.14), 55.990114), (128, (1.14, 2.29, 1.07, 1.07, 1.07), 111.861913),
            (256, (1.14, 3.39, 1.06, 1.06, 1.06), 222.917519), (512, (1.15, 3.4, 1.05, 1.05, 1.05), 445.677208),
            (1024, (1.15, 3.41, 1.04, 1.04, 1.04), 891.338385)) if size <= largest),
        *(signs(size, cells, optimum, fixed=False) for size, cells, optimum in (
            (64, (2.58, 7.44, 2.43, 1.15, 1.61), 24.773659), (128, (2.82, 8.28, 2.58, 1.18, 1.72), 45.277394),
            (256, (2.82, 8.36, 2.58, 1.17, 1.7), 90.281375), (512, (2.79, 8.27, 2.51, 1.16, 1.68), 182.066145),
            (1024, (2.76, 8.17, 2.49, 1.16, 1.67), 370.453377)) if size <= largest),
        age(),
        *(marginals(size, cells, optimum) for size, cells, optimum in (
            (2, (1.82, 3.02, 1.14, 1.14, 1.14), 2.182453), (4, (4.55, 10.28, 1.42, 1.42, 1.42), 3.471896),
            (6, (8.6, 21.38, 1.66, 1.66, 1.66), 4.119431), (8, (14.03, 36.72, 1.88, 1.88, 1.88), 4.504425),
            (10, (20.84, 56.23, 2.08, 2.08, 2.08), 4.759002), (12, (28.76, 78.96, 2.25, 2.25, 2.25), 4.939676),
            (14, (38.17, 106.22, 2.41, 2.41, 2.41), 5.074497), (16, (48.85, 137.41, 2.57, 2.57, 2.57), 5.178935))
          if size**3 <= 4 * largest),
        *(related(size, cells, optimum) for size, cells, optimum in (
            (64, (3.51, 9.59, 1.31, 1.31, 1.31), 703.417327), (128, (4.16, 11.16, 1.31, 1.31, 1.31), 2853.157034),
            (256, (4.28, 12.6, 1.19, 1.19, 1.19), 10924.825684), (512, (3.62, 10.46, 1.12, 1.12, 1.12), 43164.294847),
            (1024, (3.5, 10.05, 1.07, 1.07, 1.07), 171340.119705)) if size <= largest),
    ]


ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
LOANS = (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15)
CPS = (50, 100, 7, 4, 2)


def mixed(sizes: Sequence[int], ordered: int) -> list[Factor]:
    """Prefixes of the first attributes, the values of the others."""
    return [Prefix(size) if i < ordered else Identity(size) for i, size in enumerate(sizes)]


# Name, factors, sizes of the products; the RMSE at squared cost 1 of the exact optimum where it is known, of the oblique planner of the
# notes this project started from, and of the best other planner (QuerySmasher, or ResidualPlanner+ as published).
OBLIQUE: tuple[tuple[str, list[Factor], tuple[int, ...], float | None, float, float], ...] = (
    ("prefix 1+2-way 16^2", [Prefix(16)] * 2, (1, 2), 2.87701, 2.87708, 2.8795),
    ("prefix 1+2-way 8^3", [Prefix(8)] * 3, (1, 2), 3.07621, 3.08620, 3.1005),
    ("ranges 1+2-way 8^3", [AllRange(8)] * 3, (1, 2), 3.26231, 3.26606, 3.2735),
    ("values 1+2-way 8^3", [Identity(8)] * 3, (1, 2), 1.85926, 1.85926, 1.85926),
    ("prefix 1+2-way 10^5", [Prefix(10)] * 5, (1, 2), None, 5.2042, 5.2808),
    ("prefix 1+2-way 10^10", [Prefix(10)] * 10, (1, 2), None, 9.4208, 9.6806),
    ("ranges 1+2-way 10^10", [AllRange(10)] * 10, (1, 2), None, 11.1466, 11.2664),
    ("prefix 1+2-way 20^10", [Prefix(20)] * 10, (1, 2), None, 13.3789, 13.8173),
    *((f"Adult {name}-way", mixed(ADULT, 5), sizes, None, notes, other) for name, sizes, notes, other in (
        ("1", (1,), 4.9910, 5.047), ("2", (2,), 16.771, 17.238), ("3", (3,), 43.693, 45.223), ("<=3", (0, 1, 2, 3), 43.624, 45.174))),
    *((f"Loans {name}-way", mixed(LOANS, 4), sizes, None, notes, other) for name, sizes, notes, other in (
        ("1", (1,), 4.6145, 4.681), ("2", (2,), 14.188, 14.502), ("3", (3,), 33.415, 34.168), ("<=3", (0, 1, 2, 3), 33.369, 34.144))),
    *((f"CPS {name}-way", mixed(CPS, 2), sizes, None, notes, other) for name, sizes, notes, other in (
        ("1", (1,), 3.0630, 3.081), ("2", (2,), 5.8158, 5.823), ("3", (3,), 7.2996, 7.302), ("<=3", (0, 1, 2, 3), 7.5622, 7.570))),
)

# Name, domain, sizes of the marginals; the total variance (RMSE for Adult) or the largest variance at squared cost 1, as published.
MARGINALS: tuple[tuple[str, tuple[int, ...], tuple[int, ...], bool, float], ...] = (
    *((f"<=3-way 10^{d}, total", (10,) * d, (0, 1, 2, 3), False, total) for d, total in (
        (10, 10888529.5519), (20, 839859903.12), (50, 226899402209.76), (100, 14912301850346.07))),
    *((f"<=3-way 10^{d}, largest", (10,) * d, (0, 1, 2, 3), True, most) for d, most in (
        (6, 26.904583), (10, 105.030804), (15, 332.769347), (20, 768.941400))),
    ("<=3-way Adult, largest", ADULT, (0, 1, 2, 3), True, 253.605155),
    ("all marginals of CPS, largest", CPS, (0, 1, 2, 3, 4, 5), True, 14.495567),
    *((f"{name}-way Adult, total", ADULT, sizes, False, rmse**2 * rows) for name, sizes, rmse, rows in (
        ("1", (1,), 3.046823, 588), ("2", (2,), 6.358720, 148137), ("3", (3,), 10.515270, 20894536), ("<=3", (0, 1, 2, 3), 10.665008, 21043262))),
)

# Squared cost of fitness for use (targets 1) and RMSE of least total variance, by the number of values: prefixes, and all ranges.
LARGEST = {"prefix": {3: 1.570503, 5: 1.916098, 10: 2.471268, 32: 3.630723, 100: 5.043965, 128: 5.386087, 512: 7.542896},
           "ranges": {4: 1.911978, 8: 2.677192, 16: 3.643621, 64: 6.19328}}
TOTAL = {"prefix": {8: 1.494414, 16: 1.689404, 32: 1.892086, 64: 2.099856, 128: 2.311001, 256: 2.524414, 512: 2.739385, 1024: 2.955452},
         "ranges": {8: 1.495031, 16: 1.742927, 32: 2.014877, 64: 2.302213, 128: 2.598991, 256: 2.901435, 512: 3.207253, 1024: 3.515083}}


ADULT8 = (85, 9, 100, 16, 7, 15, 6, 5)


def sf1() -> Workload:
    """The persons of the 2010 census summary file 1, tables P1 to PCT12O, as HDMM's authors wrote them down: 33 products over sex,
    Hispanic or not, 63 sets of races (and none), relationship and age; 4151 queries over 500 480 cells."""
    races, ages = np.arange(64), 115
    held = np.array([int(race).bit_count() for race in races])
    alone = races[None, :] == 2 ** np.arange(6)[:, None]
    major = Dense(np.vstack([alone, ~alone.any(axis=0)]).astype(np.int64))  # six races alone, and the rest
    detail = Dense(np.vstack([races[None, :] == races[1:, None], held[None, :] == np.arange(1, 7)[:, None], held[None, :] >= 2]).astype(np.int64))
    white = Ranges(64, (1,), (1,))
    ends = (0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85, ages)
    bands = Ranges(ages, ends[:-1], tuple(end - 1 for end in ends[1:]))
    years = Ranges(ages, (*range(100), 100, 105, 110), (*range(100), 104, 109, 114))
    adult, hispanic, other = Ranges(ages, (18,), (114,)), Ranges(2, (0,), (0,)), Ranges(2, (1,), (1,))
    each, both = Identity(2), Dense(np.array([[1, 0], [0, 1], [1, 1]]))

    def asked(sex: Factor | None = None, origin: Factor | None = None, race: Factor | None = None, age: Factor | None = None) -> Product:
        return Product((sex or Total(2), origin or Total(2), race or Total(64), Total(17), age or Total(ages)))

    short = [asked(), asked(race=major), asked(), asked(origin=each), asked(), asked(origin=each, race=major), asked(origin=both),
             asked(race=detail), asked(), asked(origin=each), asked(origin=other, race=detail), asked(),
             asked(race=detail, age=adult), asked(age=adult), asked(origin=each, age=adult), asked(origin=other, race=detail, age=adult),
             asked(age=adult)]
    for age, last in ((bands, white), (years, major)):
        for origin, race in ((None, None), (None, major), (hispanic, None), (other, last)):
            short += [asked(each, origin, race, age), asked(both, origin, race)]
    return Workload(domain(2, 2, 64, 17, ages), tuple(short))


def random_ranges() -> Ranges:
    """512 ranges of 256 values as HDMM's authors draw them: a width, then a place, by numpy's legacy generator with seed 9001."""
    random = np.random.RandomState(9001)
    drawn = []
    for _ in range(512):
        width = int(random.randint(1, 257))
        low = int(random.randint(0, 257 - width))
        drawn.append((low, low + width - 1))
    lows, highs = zip(*drawn, strict=True)
    return Ranges(256, lows, highs)


# Name, workload; RMSE at epsilon = 1 as published for identity, the best b-ary hierarchy, the Haar wavelet and HDMM.
def laplace_cases() -> list[tuple[str, Workload, tuple[float | None, float | None, float | None, float]]]:
    return [
        ("all ranges 256", line(AllRange(256)), (13.115, 11.636, 14.871, 8.077)),
        ("prefix 256", line(Prefix(256)), (16.031, 9.790, 13.089, 7.406)),
        ("512 random ranges 256", line(random_ranges()), (16.221, 11.580, 15.735, 8.543)),
        ("ranges of width 32, 256", line(Ranges(256, tuple(range(225)), tuple(range(31, 256)))), (8.0, 10.932, 13.574, 6.338)),
        ("prefix 1024", line(Prefix(1024)), (32.016, 13.853, 17.202, 9.662)),
        ("all ranges 1024", line(AllRange(1024)), (26.153, 16.709, 20.256, 11.177)),
        ("all ranges 64x64", products([AllRange(64)] * 2, (2,)), (31.113, 62.23, 72.30, 21.891)),
        ("prefix 64x64", products([Prefix(64)] * 2, (2,)), (45.962, 62.23, 62.14, 20.034)),
        ("ranges of one of 64x64", products([AllRange(64)] * 2, (1,)), (53.07, None, None, 11.268)),
        ("census SF1 persons", sf1(), (95.675, None, None, 7.459)),
        ("2-way, 8 of Adult", products([Identity(size) for size in ADULT8], (2,)), (3239.0, None, None, 25.988)),
        ("<=3-way 10^8", products([Identity(10)] * 8, (0, 1, 2, 3)), (562.0, None, None, 69.53)),
        ("<=3-way 10^10", products([Identity(10)] * 10, (0, 1, 2, 3)), (5315.0, None, None, 144.52)),
    ]


def count_cells(sizes: Sequence[int], ways: Sequence[int]) -> int:
    """How many cells all marginals of so many attributes have."""
    return sum(math.prod(chosen) for way in ways for chosen in combinations(sizes, way))
