import json
from hashlib import blake2b

import pytest

from slatewise.errors import InputError
from slatewise.service.store.records import (
    LAST_TIME,
    LONGEST,
    Item,
    Outcome,
    SlateRecord,
    json_texts,
    outcome_key,
    positions,
)

BAD = {
    "empty": "",
    "has 10,000 characters": "x" * 10_000,
    "NUL": "a\0b",
    "no valid Unicode": "a\ud800",
}


@pytest.mark.parametrize(("problem", "text"), BAD.items(), ids=BAD)
def test_texts_that_no_store_can_keep_are_refused(problem: str, text: str) -> None:
    for make in (
        lambda: SlateRecord(text, "u", 0, "s", ()),
        lambda: SlateRecord("i", text, 0, "s", ()),
        lambda: SlateRecord("i", "u", 0, text, ()),
        lambda: SlateRecord("i", "u", 0, "s", ("é", text, "b")),
        lambda: Outcome(text, None, (), 0),
        lambda: Outcome("i", None, ("a", text), 0),
        lambda: Item(text, "g"),
        lambda: Item("i", text),
    ):
        with pytest.raises(InputError, match=problem) as raised:
            make()
        assert f"1 to {LONGEST} characters" in raised.value.remedy
        assert len(str(raised.value)) < 300


def test_long_texts_of_every_script_are_kept() -> None:
    longest = "💥" * LONGEST
    assert SlateRecord(longest, longest, 0, longest, (longest, "a")).user_id == longest


@pytest.mark.parametrize("time", [-1, LAST_TIME + 1, 2**63])
def test_times_out_of_reach_are_refused(time: int) -> None:
    with pytest.raises(InputError, match="not between 1970 and 9999"):
        SlateRecord("i", "u", time, "s", ())
    with pytest.raises(InputError, match="not between 1970 and 9999"):
        Outcome("i", None, (), time)


def test_nobody_sees_less_than_nothing() -> None:
    with pytest.raises(InputError, match="-1 items were seen"):
        Outcome("i", -1, (), 0)


@pytest.mark.parametrize("wanted", ["", "b", "bab", "cabacabac"])
def test_positions_are_those_of_the_first(wanted: str) -> None:
    assert positions("abcab", wanted) == ["abcab".index(item) for item in wanted]


@pytest.mark.parametrize("seen", [None, 0, 12])
@pytest.mark.parametrize("clicked", [(), ("9",), ('"é"\\', "\u2028\t", "𝄞")])
def test_keys_and_lists_are_those_of_json(seen: int | None, clicked: tuple[str, ...]) -> None:
    content = json.dumps([seen, *clicked]).encode()
    assert outcome_key(seen, clicked) == blake2b(content, digest_size=16).hexdigest()
    assert json_texts(clicked) == json.dumps(clicked, separators=(",", ":"))
