"""The report as one HTML file that needs nothing else: style, script and data are inside."""

import base64
import json
import re
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Final

from slatewise.errors import SlatewiseError, install_remedy
from slatewise.experiments.findings import Finding
from slatewise.experiments.store import StudyResult
from slatewise.report.contents import Report, StudyEntry, agreement, run_tables, what_was_run
from slatewise.report.section import Figure, Table, csv_text
from slatewise.version import __version__

TITLE: Final = "slatewise: what was tried, and what won"

# The page may load nothing: what is not in the file is not fetched, whatever a script tries.
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)

MOST_BYTES: Final = 100_000
"""The longest table that is put inside the page as CSV."""

_INTERVAL: Final = re.compile(r"([^\[\]]+) (\[[^\[\]]+\])")
"""A value, perhaps with its unit, and its interval."""

_NUMBER: Final = re.compile(r"–?|[−+-]?[\d.,]+(e[−+-]?\d+)?( ?%)?( \[[^\[\]]+\])?|nan")
"""What stands on the right of its column, digit below digit: a number, its interval, or neither."""

_LONG: Final = 24
"""Characters from which a column keeps a width on a phone."""


def html_page(report: Report) -> str:
    """Return the whole page."""
    numbers = iter(range(1, 10_000))
    body = "\n".join([*_top(report), *(_study(shown, numbers) for shown in report.studies)])
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(TITLE)}</title>\n<style>\n{_resource('style.css')}</style>\n"
        f"<script>{_plotly()}</script>\n</head>\n<body>\n{body}\n"
        f"<footer>Written by slatewise {escape(__version__)}.</footer>\n</main>\n"
        f"<script>{_resource('page.js')}</script>\n</body>\n</html>\n"
    )


def _resource(name: str) -> str:
    return (files("slatewise.report") / name).read_text(encoding="utf-8")


def _plotly() -> str:
    """Return plotly.js, which its Python package ships."""
    try:
        from plotly.offline import get_plotlyjs  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise SlatewiseError(
            "the HTML report draws with plotly, which is not installed.",
            f"{install_remedy('report')}; or write it with --format markdown.",
        ) from error
    return str(get_plotlyjs())


def _top(report: Report) -> Iterator[str]:
    links = "".join(
        f'<a href="#{escape(shown.result.name)}">{escape(shown.section.title)}</a>'
        for shown in report.studies
    )
    yield f"<header><h1>{escape(TITLE)}</h1>"
    yield (
        "<p>Every number here was computed by the studies below, and every verdict follows from "
        "a number and its interval. Models are named by likelihood, dynamics and prior of the "
        "items: slate-gru-hier has the slate likelihood, a GRU and a hierarchical prior.</p>"
    )
    yield f"<nav>{links}</nav></header>\n<main>"
    yield from _glance(report)
    yield "<noscript><p>Without JavaScript the figures stay empty, not the tables.</p></noscript>"
    yield '<h2 id="findings">Findings</h2>'
    yield f"<p>{escape(agreement(report))}</p>"
    for shown in report.studies:
        if shown.result.findings:
            yield f"<h3>{escape(shown.section.title)}</h3>"
            items = "\n".join(_finding(finding) for finding in shown.result.findings)
            yield f'<ul class="findings">\n{items}\n</ul>'
    for name in report.unfinished:
        yield f"<p>The study <code>{escape(name)}</code> is not finished and not shown.</p>"
    if report.missing:
        names = ", ".join(f"<code>{escape(name)}</code>" for name in report.missing)
        yield f"<p>Not run: {names}.</p>"


def _glance(report: Report) -> Iterator[str]:
    """Show on the first screen what was tried, what won, by how much, and how sure that is."""
    cards = [
        f'<article><h3><a href="#{escape(shown.result.name)}">{escape(shown.section.title)}</a>'
        f'</h3>\n<p class="won">{escape(found.won)}</p>\n<p>{escape(found.meaning)}</p>\n'
        f'<p class="caption">{escape(found.margin)}</p>\n'
        f'<p><span class="badge {"certain" if found.certain else "cannot-tell"}">'
        f'{escape(found.sure)}</span></p>\n<p class="caption">Tried: {escape(found.tried)}</p>'
        "</article>"
        for shown in report.studies
        if (found := shown.takeaway) is not None
    ]
    if cards:
        yield '<h2 id="glance">At a glance</h2>\n<div class="glance">'
        yield "\n".join(cards)
        yield "</div>"


def _finding(finding: Finding) -> str:
    kind = finding.agreement.replace(" ", "-")
    label = {
        "agrees": "agrees with the paper",
        "disagrees": "disagrees with the paper",
        "cannot tell": "undecided",
        "not in the paper": "not in the paper",
    }[finding.agreement]
    return (
        f"<li><strong>{escape(finding.question)}</strong>"
        f' <span class="badge {kind}">{escape(label)}</span><br>{escape(finding.sentence())}</li>'
    )


def _study(shown: StudyEntry, numbers: Iterator[int]) -> str:
    result, section = shown.result, shown.section
    drawn = "\n".join(_figure(figure, result, next(numbers)) for figure in section.figures)
    parts = [
        f'<section><h2 id="{escape(result.name)}">{escape(section.title)}</h2>',
        f'<p class="ran">{escape(what_was_run(result))}</p>',
        *(f"<p>{escape(text)}</p>" for text in section.paragraphs),
        *(_table(table, result) for table in section.tables),
        f'<div class="figures">\n{drawn}\n</div>' if drawn else "",
        "<details><summary>What was run: data, settings, units, raw numbers</summary>",
        *(_table(table, result, facts=True) for table in run_tables(result)),
        "<h3>Raw numbers</h3>",
        f"<p>{', '.join(_link(result, name) for name in result.tables)}</p>",
        "</details></section>",
    ]
    return "\n".join(part for part in parts if part)


def _table(table: Table, result: StudyResult, *, facts: bool = False) -> str:
    classes = [_kind(table, index) for index in range(len(table.columns))]
    head = "".join(_cell("th", column, c) for column, c in zip(table.columns, classes, strict=True))
    rows = "\n".join(
        "<tr>"
        + "".join(_cell("td", text, c) for text, c in zip(row, classes, strict=True))
        + "</tr>"
        for row in table.rows
    )
    about = ' class="facts"' if facts else ""
    return (
        f"<h3>{escape(table.title)}</h3>\n"
        f'<div class="scroll" tabindex="0"><table{about}>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>\n" + _caption(table.caption, table.file, result)
    )


def _kind(table: Table, index: int) -> str:
    """Return the classes of a column: whose it is, and whether it has texts, and long ones."""
    texts = [row[index] for row in table.rows]
    kinds = {
        "paper": table.columns[index] in table.paper,
        "text": not all(_NUMBER.fullmatch(text) for text in texts),
        "long": any(len(text) > _LONG for text in texts),
    }
    return " ".join(kind for kind, applies in kinds.items() if applies)


def _cell(tag: str, text: str, kind: str) -> str:
    about = f' class="{kind}"' if kind else ""
    inside = _INTERVAL.fullmatch(text) if tag == "td" else None
    if inside is not None:
        content = f'{escape(inside[1])} <span class="interval">{escape(inside[2])}</span>'
    else:
        content = escape(text)
    return f"<{tag}{about}>{content}</{tag}>"


def _caption(caption: str, file: str, result: StudyResult) -> str:
    link = f" Numbers: {_link(result, file)}." if file else ""
    return f'<p class="caption">{escape(caption)}{link}</p>' if caption or link else ""


def _link(result: StudyResult, table: str) -> str:
    """Offer a table as CSV from inside the page, or name its file where it is too large."""
    text = csv_text(result.tables[table]).encode() if table in result.tables else b""
    if not 0 < len(text) <= MOST_BYTES:
        return f"<code>{escape(f'{result.name}/{table}')}.parquet</code> beside this page"
    inside = base64.b64encode(text).decode()
    name = escape(f"{result.name}-{table}.csv")
    return f'<a download="{name}" href="data:text/csv;base64,{inside}">{escape(table)} (CSV)</a>'


def _figure(figure: Figure, result: StudyResult, number: int) -> str:
    name = f"figure-{number}"
    drawing = json.dumps({"data": figure.data, "layout": figure.layout}, allow_nan=False)
    # Inside a script element only "<" could end it.
    drawing = drawing.replace("<", "\\u003c")
    height = int(figure.layout.get("height", 380))
    link = f" Numbers: {_link(result, figure.file)}." if figure.file else ""
    return (
        f"<figure><h3>{escape(figure.title)}</h3>\n"
        f'<div class="plot" id="{name}" style="height:{height}px"></div>\n'
        f'<script type="application/json" id="{name}-data">{drawing}</script>\n'
        f"<figcaption>{escape(figure.caption)}{link}</figcaption></figure>"
    )
