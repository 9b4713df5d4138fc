import json
import math

import pytest

from slatewise.experiments.findings import Direction, Finding, shown_interval


def finding(low: float, high: float, paper: Direction | None = None) -> Finding:
    return Finding("Is A better?", "A minus B", (low + high) / 2, low, high, paper=paper)


@pytest.mark.parametrize(
    ("low", "high", "paper", "verdict", "agreement"),
    [
        (0.1, 0.3, "above", "above", "agrees"),
        (0.1, 0.3, "below", "above", "disagrees"),
        (-0.3, -0.1, "above", "below", "disagrees"),
        (-0.1, 0.3, "above", "cannot tell", "cannot tell"),
        (-0.1, 0.3, "equal", "cannot tell", "cannot tell"),
        (0.1, 0.3, "equal", "above", "disagrees"),
        (0.1, 0.3, None, "above", "not in the paper"),
        (0.0, 0.3, "above", "cannot tell", "cannot tell"),
        (math.nan, math.nan, "above", "cannot tell", "cannot tell"),
    ],
)
def test_the_interval_alone_decides(
    low: float, high: float, paper: Direction | None, verdict: str, agreement: str
) -> None:
    found = finding(low, high, paper)
    assert (found.verdict, found.agreement) == (verdict, agreement)


def test_a_ratio_is_held_against_one() -> None:
    found = Finding("Q", "A over B", 1.09, 1.02, 1.16, reference=1.0)
    assert found.verdict == "above"
    assert found.sentence() == "A over B: 1.09 [1.02, 1.16], above 1."


def test_the_sentence_has_the_number_the_interval_and_the_paper() -> None:
    found = Finding("Q", "A minus B", -0.2, -0.3, -0.1, paper="above", paper_numbers="2 against 1")
    assert found.sentence() == (
        "A minus B: −0.20 [−0.30, −0.10], below 0. The paper: above (2 against 1); this disagrees."
    )


@pytest.mark.parametrize("worlds", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("note", ["", "1 of 1 seed above 0; smallest detectable difference ±0.01"])
def test_a_sentence_has_no_brackets_after_brackets(worlds: int | None, note: str) -> None:
    found = Finding(
        *("Q", "A minus B", 0.2, 0.1, 0.3),
        paper="above",
        paper_numbers="2 against 1",
        note=note,
        worlds=worlds,
    )
    sentence = found.sentence()
    assert ") (" not in sentence
    assert ("worlds, 3 are needed" in sentence) == (worlds in (0, 2))
    assert ("1 world, 3 are needed" in sentence) == (worlds == 1)


def test_a_finding_is_read_back_as_it_was() -> None:
    found = finding(0.1, 0.3, "below")
    assert Finding.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_a_stored_verdict_is_not_believed() -> None:
    stored = finding(0.1, 0.3).to_json() | {"verdict": "below", "sentence": "B is best."}
    assert Finding.from_json(stored).verdict == "above"


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ((0.02371, 0.009627, 0.03824), "0.024 [0.010, 0.038]"),
        ((-1.7034, -1.7812, -1.6251), "−1.70 [−1.78, −1.63]"),
        ((1234.5, 1034.5, 1434.5), "1234 [1034, 1434]"),
        ((0.5, 0.5, 0.5), "0.500 [0.500, 0.500]"),
        ((0.5, math.nan, math.nan), "0.500 [nan, nan]"),
    ],
)
def test_an_interval_is_shown_as_precisely_as_it_is_known(
    numbers: tuple[float, float, float], shown: str
) -> None:
    assert shown_interval(*numbers) == shown
