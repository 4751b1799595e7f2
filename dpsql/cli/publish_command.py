"""`dpsql publish`, for cron or a timer: standing queries, measured for the periods that have closed, and written to files."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.cli.arguments import Commands, add_place
from dpsql.cli.faults import EXIT, exit_code, say
from dpsql.cli.inputs import connected
from dpsql.cli.terminal import print_wrapped, waiting
from dpsql.errors import BudgetExhausted, Error, LedgerError, OperationalError

if TYPE_CHECKING:
    from dpsql.answers.published_folder import PublishedFolder
    from dpsql.engine.publishing import Publication
    from dpsql.engine.session import Session
    from dpsql.engine.standing_queries import StandingQuery

FORMATS = ("csv", "parquet", "json")


def add(commands: Commands) -> None:
    made = commands.add("publish", _publish, "answer standing queries for the periods that have closed, and write all periods to "
                        "files and pages")
    made.add_argument("name", nargs="*", help="the standing queries (default: all of the budget)")
    made.add_argument("--out", required=True, metavar="FOLDER", help="the folder of the files, for this budget alone; files of "
                      "earlier runs are replaced")
    made.add_argument("--format", default=",".join(FORMATS), metavar="LIST", help="csv, parquet and json, with commas between "
                      "them (default: all)")
    add_place(made)
    made.add_argument("--json", action="store_true", help="print JSON, one line for each standing query")


def _publish(options: argparse.Namespace) -> int:
    from dpsql.answers.published_folder import PublishedFolder
    from dpsql.cli.stop_signals import stop_signals
    from dpsql.engine.publishing import publish, publishing
    from dpsql.engine.standing_queries import kept

    formats, place, faults, left = _formats(options.format), _folder(options.out), list[Error](), False
    with stop_signals() as stop, connected(options) as connection:
        session = connection.session
        with publishing(session):
            chosen = _chosen(options.name, session)
            folder = PublishedFolder.of(place, session.ledger.identity, session.budget.name)
            for query in chosen:
                if stop.is_set():
                    left = True
                    break
                if not _is_kept(query, session):  # dropped since this run began
                    continue
                try:
                    with waiting():
                        told = folder.told(query.name, query.text, query.analyst)
                        made = publish(query, session, told=told, is_to_stop=stop.is_set)
                    files = _write(made, folder, formats)
                except LedgerError:
                    raise
                except Error as fault:  # of this query: the others go on
                    _tell_fault(query, "nothing was published", fault, options)
                    faults.append(fault)
                    continue
                _tell(made, files, options)
                faults += [failed.fault for failed in made.failed]
                left |= made.stopped
            _write_index(folder, [*kept(session).values()], session)
    if left:
        print("stopped by a signal; the next run measures what is left", file=sys.stderr)
        return EXIT["later"]
    codes = {exit_code(fault) for fault in faults}
    return next((code for code in (EXIT["failed"], EXIT["budget"], EXIT["wrong"]) if code in codes), 0)


def _formats(text: str) -> tuple[str, ...]:
    asked = [part.strip().lower() for part in text.split(",")]
    wrong = next((part for part in asked if part not in FORMATS), None)
    if wrong is not None:
        raise OperationalError(f"{wrong or 'nothing'} is not a format", code="argument", try_="--format csv,parquet,json")
    return tuple(name for name in FORMATS if name in asked)


def _folder(name: str) -> Path:
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise OperationalError(f"the folder {folder} cannot be made ({type(fault).__name__})", code="file",
                               try_="--out FOLDER, where you may write") from None
    return folder


def _chosen(names: list[str], session: Session) -> list[StandingQuery]:
    """The standing queries to publish, each once. Raises SqlError if one is unknown, before anything is charged."""
    from dpsql.engine.standing_queries import kept, unknown

    found = kept(session)
    for name in names:
        if name.lower() not in found:
            raise unknown(name, session)
    if not found:
        raise OperationalError(f"the budget {session.budget.name} has no standing query", code="standing",
                               try_="CREATE STANDING QUERY name AS SELECT ..., in dpsql query")
    return [found[name] for name in (dict.fromkeys(name.lower() for name in names) or found)]


def _is_kept(query: StandingQuery, session: Session) -> bool:
    from dpsql.engine.standing_queries import named

    there = named(query.name, session)
    return there is not None and (there.text, there.analyst) == (query.text, query.analyst)


# -- files


def _write(made: Publication, into: PublishedFolder, formats: tuple[str, ...]) -> list[str]:
    """Write the files of a standing query; returns their names. The page comes last, as it links to the others. Raises
    LedgerError if the folder has other numbers."""
    from dpsql.answers.replaced_files import replace_file
    from dpsql.answers.series_page import series_page

    if made.series is None:
        return []
    into.tell(made.series)
    names, folder = [f"{made.query.name}.{form}" for form in formats], into.place
    for form, name in zip(formats, names, strict=True):
        replace_file(folder / name, _content(made, form))
    replace_file(folder / f"{made.query.name}.html", series_page(made.series, names).encode())
    return [*names, f"{made.query.name}.html"]


def _content(made: Publication, form: str) -> bytes:
    from dpsql.answers.published_series import as_csv, as_parquet, table_of

    assert made.series is not None
    if form == "json":
        return made.series.as_json().encode()
    table = table_of(made.series)
    return as_csv(table).encode() if form == "csv" else as_parquet(table)


def _write_index(into: PublishedFolder, queries: list[StandingQuery], session: Session) -> None:
    from dpsql.answers.published_folder import INDEX
    from dpsql.answers.replaced_files import replace_file
    from dpsql.answers.series_page import IndexEntry, index_page

    folder = into.place

    def entries() -> Iterator[IndexEntry]:
        for query in queries:
            names = into.periods(query.name, query.text, query.analyst)
            yield IndexEntry(name=query.name, statement=query.text, analyst=query.analyst,
                             periods="" if not names else f"{names[0]} to {names[-1]}", files=tuple(
                                 name for form in ("html", *FORMATS) if (folder / (name := f"{query.name}.{form}")).is_file()))

    replace_file(folder / INDEX, index_page(session.budget.name, entries()).encode())


# -- words


def _tell(made: Publication, files: list[str], options: argparse.Namespace) -> None:
    told = made.series
    measured = () if told is None else told.measured
    if options.json:
        failed = [{"period": failed.period, **failed.fault.as_dict()} for failed in made.failed]
        print(json.dumps({"name": made.query.name, "periods": [period.name for period in measured], "new": made.new,
                          "files": files, "failed": failed}))
        return
    from dpsql.answers.series_page import price_of, span_of

    if told is None:
        print(f"{made.query.name}: no period is measured yet")
    else:
        prices = [price_of(period) for period in measured if period.name in made.new]
        each = "each" if len({*prices}) < 2 else "the last"
        new = f"{len(made.new)} new, {each} at {''.join(prices[-1:])}" if made.new else "none new"
        print(f"{made.query.name}: periods {span_of(measured)}; {new}")
    for code in dict.fromkeys(failed.fault.code for failed in made.failed):
        same = [failed for failed in made.failed if failed.fault.code == code]  # one message says enough
        if code in (BudgetExhausted.code, "period-exhausted"):  # what an analyst may try at once does not help a publisher
            same[0].fault.try_ = "a larger limit in the policy; or a new standing query at a lower price, which is charged anew"
        names = same[0].period if len(same) == 1 else f"{len(same)} periods, {same[0].period} to {same[-1].period},"
        _tell_fault(made.query, f"{names} could not be measured", same[0].fault, options)


def _tell_fault(query: StandingQuery, what: str, fault: Error, options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps({"name": query.name, **fault.as_dict()}))
        return
    print_wrapped(f"{query.name}: {what}", sys.stderr)
    say(fault)
