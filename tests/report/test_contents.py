import base64
import io
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from slatewise.errors import InputError, SlatewiseError
from slatewise.experiments.store import StudyResult
from slatewise.report import build_report
from slatewise.report.contents import agreement, collect, duration
from tests.report.conftest import NASTY


class Reader(HTMLParser):
    """Collects the elements of a page, what they point at, and its visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.shown = ""
        self._hidden = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._hidden = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = False

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.shown += data


@pytest.fixture(scope="module")
def page(studies: Path) -> Reader:
    return Reader(build_report(studies).read_text(encoding="utf-8"))


def test_findings_come_first_and_every_finding_is_there(page: Reader, studies: Path) -> None:
    assert page.shown.index("Findings") < page.shown.index("Table 1, left")
    for name in ("offline", "posterior", "toy"):
        for finding in StudyResult.load(studies / name).findings:
            assert finding.question in page.shown
            assert finding.sentence() in page.shown


def test_the_paper_stands_beside_ours(page: Reader, studies: Path) -> None:
    ours = StudyResult.load(studies / "offline").tables["table1"]
    assert "−4.96e7" in page.shown
    assert "0.149" in page.shown
    value = ours["recall@20"][0].split()[0]
    assert value in page.shown
    marked = [attrs for tag, attrs in page.elements if attrs.get("class") == "paper"]
    assert len(marked) >= 2 * (1 + ours.height)


def test_the_page_says_what_was_run(page: Reader) -> None:
    for text in (
        "preset tiny",
        "Seeds 0, 1; 2 units",
        "training.max_epochs",
        "seed-0-slate-linear-hier",
        "torch",
        "click rate of search",
        "content hash",
    ):
        assert text in page.shown, text


def test_names_from_data_are_text_and_not_markup(page: Reader) -> None:
    assert NASTY in page.shown
    assert not any("alert" in str(attrs) for _, attrs in page.elements)


def test_nothing_is_fetched(page: Reader) -> None:
    loading = ("script", "link", "img", "iframe", "object", "embed", "source", "video", "audio")
    for tag, attrs in page.elements:
        if tag in loading:
            assert "src" not in attrs, (tag, attrs)
            assert "href" not in attrs, (tag, attrs)
    links = [str(attrs["href"]) for tag, attrs in page.elements if tag == "a"]
    assert links
    assert all(link.startswith(("#", "data:text/csv;base64,")) for link in links)


def test_every_link_leads_to_a_part_of_the_page_or_to_a_table_inside_it(
    page: Reader, studies: Path
) -> None:
    names = {attrs.get("id") for _, attrs in page.elements}
    links = [attrs for tag, attrs in page.elements if tag == "a"]
    inner = [str(attrs["href"])[1:] for attrs in links if str(attrs["href"]).startswith("#")]
    assert inner
    assert set(inner) <= names
    inside = {attrs["download"]: str(attrs["href"]) for attrs in links if "download" in attrs}
    text = base64.b64decode(inside["offline-differences.csv"].partition(",")[2]).decode()
    rows = StudyResult.load(studies / "offline").tables["differences"]
    read = pl.read_csv(io.StringIO(text))
    assert read["value"].to_list() == pytest.approx(rows["value"].to_list())


def test_the_first_screen_names_what_won_and_how_sure_that_is(page: Reader, studies: Path) -> None:
    rows = StudyResult.load(studies / "offline").tables["differences"]
    best = rows.filter(metric="log_likelihood").sort("value", descending=True).to_dicts()[0]
    won = best["recommender"] if best["value"] > 0 else best["reference"]
    first = page.shown[: page.shown.index("Findings")]
    assert "At a glance" in first
    assert f"“{won}” {'wins' if best['low'] * best['high'] > 0 else 'leads'}" in first
    ratio = f"{math.expm1(abs(best['value'])):.1%}".replace("%", " %")
    assert f"What users did is {ratio} more probable" in first
    settled = min(abs(best["low"]), abs(best["high"])) > 0 and best["low"] * best["high"] > 0
    assert ("settled: the 95 % interval" if settled else "no clear difference") in first


def test_a_user_and_her_slates_are_shown(page: Reader, studies: Path) -> None:
    slates = StudyResult.load(studies / "posterior").tables["example_slates"]
    assert slates["strategy"].n_unique() == 3
    assert "What she would be shown next" in page.shown
    assert f"{slates['item'][0]} ({slates['group'][0]})" in page.shown


def test_texts_stand_on_the_left_and_numbers_on_the_right(studies: Path) -> None:
    text = build_report(studies).read_text(encoding="utf-8")
    for column in ("seen", "source", "greedy"):
        assert re.search(f'<th class="[^"]*text[^"]*">{column}</th>', text)
    for column in ("clicked", "recall@20", "log-likelihood"):
        assert f"<th>{column}</th>" in text
    sizes = re.findall(r"\) (\d+\.(\d+)) ± \d+\.(\d+)<", text)
    assert sizes
    assert all(len(of_mean) == len(of_sd) for _, of_mean, of_sd in sizes)


def test_csv_has_every_row_of_every_table(studies: Path) -> None:
    build_report(studies, "csv")
    for name in ("offline", "toy"):
        for table, frame in StudyResult.load(studies / name).tables.items():
            assert pl.read_csv(studies / name / f"{table}.csv").height == frame.height


def test_latex_has_every_table_with_special_characters_escaped(studies: Path) -> None:
    text = build_report(studies, "latex").read_text(encoding="utf-8")
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == _tables(studies)
    assert r"all-item-gru-hier & $-$2.81e7" in text
    assert r"shoes \& " in text
    body = re.sub(r"\\.|\$-\$", "", "\n".join(text.splitlines()[1:]))
    assert not re.search(r"[#%_~^]", body)


def _tables(studies: Path) -> int:
    return sum(len(shown.section.tables) for shown in collect(studies).studies)


def test_plotly_is_in_the_file_once(studies: Path) -> None:
    text = build_report(studies).read_text(encoding="utf-8")
    assert text.count("* plotly.js v") == 1


def test_figures_are_what_plotly_knows(studies: Path) -> None:
    graphs = pytest.importorskip("plotly.graph_objects")
    drawn = [figure for shown in collect(studies).studies for figure in shown.section.figures]
    assert len(drawn) == 7
    for figure in drawn:
        graphs.Figure({"data": figure.data, "layout": figure.layout})
        assert figure.caption


def test_a_study_without_a_section_of_its_own_is_shown_by_its_tables(page: Reader) -> None:
    assert "1,234" in page.shown
    assert "−0.125" in page.shown


def test_studies_that_are_missing_or_unfinished_are_named(studies: Path, tmp_path: Path) -> None:
    (tmp_path / "posterior").mkdir()
    about = json.loads((studies / "posterior" / "study.json").read_text())
    (tmp_path / "posterior" / "study.json").write_text(json.dumps(about | {"finished": False}))
    report = collect(tmp_path)
    assert not report.studies
    assert report.unfinished == ["posterior"]
    assert "offline" in report.missing
    shown = Reader(build_report(tmp_path).read_text(encoding="utf-8")).shown
    assert "posterior is not finished" in shown


def test_no_study_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SlatewiseError, match="no study in") as error:
        build_report(tmp_path)
    assert "slatewise experiment" in error.value.remedy


def test_a_damaged_table_is_refused(studies: Path, tmp_path: Path) -> None:
    toy = tmp_path / "toy"
    toy.mkdir()
    for file in (studies / "toy").glob("*.*"):
        (toy / file.name).write_bytes(file.read_bytes())
    (toy / "groups.parquet").write_bytes(b"no table")
    with pytest.raises(InputError, match="missing or damaged"):
        build_report(tmp_path)


def test_agreement_is_counted(studies: Path) -> None:
    report = collect(studies)
    findings = [finding for shown in report.studies for finding in shown.result.findings]
    held = [finding for finding in findings if finding.paper is not None]
    text = agreement(report)
    assert text.startswith(f"Comparisons that are in the paper too: {len(held)} (agree: ")
    agree = sum(finding.agreement == "agrees" for finding in held)
    assert f"(agree: {agree}, disagree: " in text


def test_the_same_studies_give_the_same_file(studies: Path) -> None:
    assert build_report(studies).read_bytes() == build_report(studies).read_bytes()


def test_markdown_has_the_tables_and_links_to_the_numbers_of_figures(studies: Path) -> None:
    text = build_report(studies, "markdown").read_text(encoding="utf-8")
    assert "| slate-gru-hier | −4.96e7 |" in text
    assert "<script>" not in text.replace("\\<script\\>", "")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert all((studies / link).is_file() for link in links)
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("| :--"):
            cells = len(re.findall(r"(?<!\\)\|", line))
            assert len(re.findall(r"(?<!\\)\|", lines[number - 1])) == cells


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.4, "0 s"), (99, "99 s"), (600, "10 min"), (36_000, "10.0 h")]
)
def test_durations_are_said_as_people_say_them(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
