"""The tables of the report for a LaTeX document, in the style of booktabs."""

import re
from collections.abc import Iterator
from typing import Final

from slatewise.report.contents import Report
from slatewise.report.section import Table

_SPECIAL: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    "→": r"$\rightarrow$",
    "–": "--",
    **{character: "\\" + character for character in "&%$#_{}"},
}
_PATTERN: Final = re.compile("|".join(map(re.escape, _SPECIAL)))


def latex_page(report: Report) -> str:
    r"""Return every table as a `table` environment, to be read by `\input`."""
    return "\n\n".join(_parts(report)) + "\n"


def _parts(report: Report) -> Iterator[str]:
    yield r"% Needs \usepackage{booktabs}, and XeLaTeX or LuaLaTeX for Greek letters in names."
    for shown in report.studies:
        for number, table in enumerate(shown.section.tables, start=1):
            yield _table(table, f"tab:{shown.result.name}-{number}")


def _table(table: Table, label: str) -> str:
    columns = "l" + "r" * (len(table.columns) - 1)
    head, *rows = (" & ".join(map(plain, row)) + r" \\" for row in (table.columns, *table.rows))
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{plain(f'{table.title}. {table.caption}'.strip())}}}",
            rf"\label{{{label}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def plain(text: str) -> str:
    """Return text so that LaTeX shows it as it is."""
    return _PATTERN.sub(lambda found: _SPECIAL[found[0]], text)
