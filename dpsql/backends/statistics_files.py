"""Files of SPSS, Stata and SAS: their codes as numbers and texts, their dates by the formats of the columns.

Types come from what the file says of its columns, and not from rows: a number is a DOUBLE, a text a VARCHAR, and a number with
the format of a date or a time is one. Times of day and durations stay numbers of seconds. What the file says to be missing is
NULL, and so is an empty text, by which these programs write that there is none.

The library turns numbers into dates by itself, but fails for a number that is no date, which one row would decide. So it is asked
for the numbers, and `_days` and `_moments` are total: a number that is no day of the years 1 to 9999 is NULL.
"""

from __future__ import annotations

import codecs
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dpsql.backends.column_names import distinct_names
from dpsql.backends.foreign_rows import ForeignFile, ForeignRows, library, not_a_file, rows_at_once
from dpsql.catalog.reading import USUAL_CSV
from dpsql.errors import OperationalError
from dpsql.frozen import Frozen

READERS = {".sav": "read_sav", ".zsav": "read_sav", ".por": "read_por", ".dta": "read_dta", ".sas7bdat": "read_sas7bdat",
           ".xpt": "read_xport"}
ENCODED, DAMAGED = "its texts have another encoding", "it is damaged, or of another kind"
CARD = 80  # bytes, of which a transport file of SAS has whole ones: it does not say how many rows there are
DAY = 86_400
FIRST_DAY, LAST_DAY = -719_162, 2_932_896  # of the years 1 to 9999, counted from 1970
SPSS_BEGINS, SAS_BEGINS = -141_428, -3_653  # 1582-10-14 and 1960-01-01, counted so; Stata begins where SAS does
SPSS_DATES = {"DATE", "ADATE", "EDATE", "JDATE", "SDATE", "MOYR", "QYR", "WKYR"}
SPSS_MOMENTS = {"DATETIME", "YMDHMS"}
SAS_DATES = re.compile(r"(DATE|(DDMMYY|MMDDYY|YYMMDD|YYMM|MMYY)[BCDNPS]?|WEEKDAT[EX]|WORDDAT[EX]|(E8601|B8601|IS8601)DA|MONYY"
                       r"|YYMON|YYQR?[CDNPS]?|JULIAN|NLDATE[A-Z]*|EURDF(DE|DD|MY|DWN|WDX|WKX))")
SAS_MOMENTS = re.compile(r"(DATETIME|DATEAMPM|MDYAMPM|DT[A-Z]+|(E8601|B8601|IS8601)(DT|DN|DZ)|NLDATM[A-Z]*)")
SECONDS = re.compile(r"([DM]?TIME|HHMM|MMSS|TOD|TIMEAMPM|(E8601|B8601|IS8601)TM)")
STATA = re.compile(r"%-?(?:t(?P<unit>[a-zA-Z])|(?P<old>d))")
MONTHS = {"m": 1, "q": 3, "h": 6}  # of a period that Stata counts from 1960
DUPLICATED = re.compile(r"_duplicated\d+$")  # how the library renames a column whose name repeats


class Codebook(Frozen):
    """What a file says of its columns, by their names here.

    origins  the names in the file
    formats  how values are shown there
    labels   what a column is about
    codes    what its values mean
    missing  its values that count as missing, as pairs of the least and the greatest
    rows     how many rows there are; None if the file does not say
    """

    origins: Mapping[str, str]
    is_text: Mapping[str, bool]
    formats: Mapping[str, str]
    labels: Mapping[str, str]
    codes: Mapping[str, Mapping[float | str, str]]
    missing: Mapping[str, Sequence[tuple[float | str, float | str]]]
    rows: int | None


def codebook(file: ForeignFile) -> Codebook:
    """The file's description of its columns; no row is read. Raises OperationalError if the file cannot be read, or has no
    columns."""
    _, told = _read(file, metadataonly=True, user_missing=True)
    names = [name or "" for name in told.column_names]
    if not names or len(set(names)) != len(names):
        raise not_a_file(file, _kind(file), "several columns have one name" if names else "it has no columns")
    here = dict(zip(names, distinct_names(names), strict=True))

    def by_name(found: Mapping[str, Any]) -> dict[str, Any]:
        return {here[name]: value for name, value in found.items() if value and name in here}

    missing = {name: [(part["lo"], part["hi"]) for part in parts] for name, parts in by_name(told.missing_ranges).items()}
    return Codebook(origins={own: name for name, own in here.items()}, formats=by_name(told.original_variable_types),
                    is_text={here[name]: told.readstat_variable_types[name] == "string" for name in names},
                    labels=by_name(told.column_names_to_labels), codes=by_name(told.variable_value_labels), missing=missing,
                    rows=told.number_rows)


def statistics_rows(file: ForeignFile) -> ForeignRows:
    """Read the rows of a file of SPSS, Stata or SAS. Raises OperationalError if the file cannot be read."""
    if file.path.suffix.lower() == ".xpt" and file.path.stat().st_size % CARD:
        raise not_a_file(file, _kind(file), "it is cut off")
    pa = library("pyarrow", file, "pip install 'dpsql[statistics]'")
    book = codebook(file)
    kinds = {name: "text" if book.is_text[name] else kind_of_format(file, book.formats.get(name, "")) for name in book.origins}
    types = {"text": pa.string(), "date": pa.date32(), "moment": pa.timestamp("us")}

    def array(name: str, values: Sequence[Any]) -> Any:
        if kinds[name] == "text":
            return pa.array([value or None for value in values], pa.string())
        numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        if kinds[name] == "date":
            numbers = _days(file, book.formats[name], numbers)
            return pa.array(np.nan_to_num(numbers).astype(np.int32), pa.int32(), mask=np.isnan(numbers)).cast(pa.date32())
        if kinds[name] == "moment":
            moments, there = _moments(file, numbers)
            return pa.array(moments, pa.int64(), mask=~there).cast(pa.timestamp("us"))
        return pa.array(numbers, pa.float64(), mask=np.isnan(numbers))

    def batches(names: Sequence[str]) -> Iterator[Sequence[Any]]:
        origins = [book.origins[name] for name in names]
        some = None if any(map(DUPLICATED.search, origins)) else origins  # the library picks by the names in the file
        at, size = 0, rows_at_once(len(book.origins if some is None else names))
        while book.rows is None or at < book.rows:
            found, _ = _read(file, usecols=some, row_offset=at, row_limit=size)
            rows = len(found[origins[0]])
            if not rows:
                return
            yield [array(name, found[origin]) for name, origin in zip(names, origins, strict=True)]
            at += rows

    return ForeignRows(types={name: types.get(kind, pa.float64()) for name, kind in kinds.items()}, rows=book.rows,
                       batches=batches)


def kind_of_format(file: ForeignFile, form: str) -> str:
    """The meaning of a column's numbers according to its format: a date, a moment, seconds, or a number."""
    if file.path.suffix.lower() == ".dta":
        found = STATA.match(form)
        unit = "d" if found is not None and found["old"] else found["unit"] if found is not None else ""
        return "date" if unit in ("d", *MONTHS) else "moment" if unit in ("c", "C") else "number"
    name = re.sub(r"[\d.]+$", "", form.upper())
    if file.path.suffix.lower() in (".sas7bdat", ".xpt"):
        is_date, is_moment = SAS_DATES.fullmatch(name) is not None, SAS_MOMENTS.fullmatch(name) is not None
    else:
        is_date, is_moment = name in SPSS_DATES, name in SPSS_MOMENTS
    return "date" if is_date else "moment" if is_moment else "seconds" if SECONDS.fullmatch(name) else "number"


def _days(file: ForeignFile, form: str, numbers: Any) -> Any:
    """The days since 1970 of dates; NaN where there is none."""
    with np.errstate(all="ignore"):
        if file.path.suffix.lower() == ".dta":
            found = STATA.match(form)
            months = MONTHS.get(found["unit"] or "") if found is not None else None
            days = np.floor(numbers) + SAS_BEGINS if months is None else _firsts(np.floor(numbers) * months)
        elif file.path.suffix.lower() in (".sas7bdat", ".xpt"):
            days = np.floor(numbers) + SAS_BEGINS
        else:
            days = np.floor(numbers / DAY) + SPSS_BEGINS
        return np.where((days >= FIRST_DAY) & (days <= LAST_DAY), days, np.nan)


def _firsts(months: Any) -> Any:
    """The days since 1970 on which months begin that are counted from 1960."""
    there = np.abs(months) < 12 * 10_000
    since = np.where(there, months, 0).astype(np.int64) - 120
    return np.where(there, since.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64), np.nan)


def _moments(file: ForeignFile, numbers: Any) -> tuple[Any, Any]:
    """The microseconds since 1970 of moments, and which of them there are. SPSS counts seconds from so long ago that a double
    tells some five decimals of them; SAS and Stata count from 1960."""
    of_stata, of_sas = (file.path.suffix.lower() in endings for endings in ((".dta",), (".sas7bdat", ".xpt")))
    with np.errstate(all="ignore"):
        seconds = numbers / 1000 if of_stata else numbers
        begins, digits = (SAS_BEGINS, 1e6) if of_stata or of_sas else (SPSS_BEGINS, 1e5)
        whole = np.floor(numbers / 1000) if of_stata else np.floor(numbers)
        rest = np.round(numbers * 1000 - whole * 1e6) if of_stata else np.round((numbers - whole) * digits) * (1e6 / digits)
        days = np.floor(seconds / DAY) + begins
        there = (days >= FIRST_DAY) & (days <= LAST_DAY)
        kept, more = np.where(there, whole, 0).astype(np.int64), np.where(there, rest, 0).astype(np.int64)
        return (kept + begins * DAY) * 1_000_000 + more, there


def _read(file: ForeignFile, **asked: Any) -> tuple[Any, Any]:
    """What the library reads. Raises OperationalError."""
    reading = library("pyreadstat", file, "pip install 'dpsql[statistics]'")
    encoding = None if file.how.encoding == USUAL_CSV.encoding else codecs.lookup(file.how.encoding).name
    reader = READERS[file.path.suffix.lower()]
    given = {**asked, **({"encoding": encoding} if encoding is not None else {})}
    if reader in ("read_por", "read_xport"):
        given.pop("user_missing", None)  # these files have none, and the reader does not know the word
    told = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: tuple[Any, Any] = getattr(reading, reader)(
                str(file.path), output_format="dict", disable_datetime_conversion=True, **given)
            return found
    except reading.ReadstatError as fault:
        told = ENCODED if re.search("encoding|convert|character set", str(fault)) else DAMAGED
    except UnicodeDecodeError:
        told = ENCODED
    except TypeError:
        told = "its encoding cannot be chosen"
    except (reading.PyreadstatError, OSError, ValueError, OverflowError, MemoryError):
        told = DAMAGED
    if told == ENCODED:
        raise OperationalError(f"{file.path} cannot be read: {told}", code="encoding", subject=file.table,
                               try_=f'csv = {{ encoding = "cp1252" }} in [tables.{file.table}], or another')
    raise not_a_file(file, _kind(file), told)


def _kind(file: ForeignFile) -> str:
    ending = file.path.suffix.lower()
    return "a file of " + ("Stata" if ending == ".dta" else "SAS" if ending in (".sas7bdat", ".xpt") else "SPSS")
