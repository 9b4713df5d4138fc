"""The report as Markdown: the same texts and tables, with links to the numbers of the figures."""

import re
from collections.abc import Iterator

from slatewise.report.contents import Report, StudyEntry, agreement, run_tables, what_was_run
from slatewise.report.page import TITLE
from slatewise.report.section import Table

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


def markdown_page(report: Report) -> str:
    """Return the whole page."""
    return "\n\n".join(_parts(report)) + "\n"


def _parts(report: Report) -> Iterator[str]:
    yield f"# {TITLE}"
    yield "## Findings"
    yield plain(agreement(report))
    for shown in report.studies:
        if shown.result.findings:
            yield f"### {plain(shown.section.title)}"
            yield "\n".join(
                f"- **{plain(finding.question)}** "
                f"({finding.agreement.replace('cannot tell', 'undecided')}) "
                f"{plain(finding.sentence())}"
                for finding in shown.result.findings
            )
    for name in report.unfinished:
        yield f"The study {plain(name)} is not finished and not shown."
    if report.missing:
        yield f"Not run: {', '.join(map(plain, report.missing))}."
    for shown in report.studies:
        yield from _study(shown)


def _study(shown: StudyEntry) -> Iterator[str]:
    result, section = shown.result, shown.section
    yield f"## {plain(section.title)}"
    yield plain(what_was_run(result))
    yield from (plain(text) for text in section.paragraphs)
    for table in section.tables:
        yield from _table(table, result.name)
    for figure in section.figures:
        yield f"### {plain(figure.title)}"
        link = f" Drawn from {_link(result.name, figure.file)}." if figure.file else ""
        yield f"{plain(figure.caption)}{link}"
    for table in run_tables(result):
        yield from _table(table, result.name)


def _table(table: Table, study: str) -> Iterator[str]:
    yield f"### {plain(table.title)}"
    rule = [":--", *("--:" for _ in table.columns[1:])]
    rows = [[plain(text) for text in row] for row in (table.columns, *table.rows)]
    rows.insert(1, rule)
    yield "\n".join(f"| {' | '.join(row)} |" for row in rows)
    link = f"Numbers: {_link(study, table.file)}." if table.file else ""
    caption = f"{plain(table.caption)} {link}".strip()
    if caption:
        yield caption


def _link(study: str, table: str) -> str:
    return f"[{plain(table)}]({study}/{table}.parquet) ([JSON]({study}/{table}.json))"


def plain(text: str) -> str:
    """Return text so that Markdown shows it as it is."""
    return _SPECIAL.sub(r"\\\1", text).replace("\n", " ")
