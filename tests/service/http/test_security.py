"""Tokens: read, compared, and never shown."""

from pathlib import Path

import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.http.security import Role, Tokens, check_open, is_loopback, read_tokens

SECRET = "hunter2-hunter2-hunter2"
OTHER = "correct-horse-battery"


def tokens(text: str) -> Tokens | None:
    return read_tokens(None, {"SLATEWISE_TOKENS": text})


def test_tokens_are_read_from_the_environment() -> None:
    found = tokens(f"read:{OTHER}, admin : {SECRET}")
    assert found is not None
    assert found.roles == (Role.READ, Role.ADMIN)
    assert found.find(SECRET.encode()) == 1
    assert found.find(OTHER.encode()) == 0
    assert found.find(b"something else, long enough") is None
    assert found.find(b"") is None


def test_without_the_variable_there_are_no_tokens() -> None:
    assert read_tokens(None, {}) is None
    assert tokens("  ") is None


def test_tokens_are_read_from_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# for the shop\n\nwrite:{SECRET}\nread:{OTHER}\n")
    file.chmod(0o600)
    found = read_tokens(file)
    assert found is not None
    assert found.roles == (Role.WRITE, Role.READ)
    for mode in (0o644, 0o620, 0o601):
        file.chmod(mode)
        with pytest.raises(SlatewiseError, match="may be read by others") as refusal:
            read_tokens(file)
        assert "chmod 600" in refusal.value.remedy


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        f"root:{SECRET}",
        "read:short",
        f"read:{SECRET} {SECRET}",
        f"read:{SECRET},write:{SECRET}",
        "read:",
        ",",
        f"read:ünicode{SECRET}",
    ],
)
def test_what_is_no_token_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(SlatewiseError) as refusal:
        tokens(text)
    assert SECRET not in str(refusal.value)
    assert refusal.value.remedy


def test_tokens_are_not_kept_in_the_clear() -> None:
    found = tokens(f"read:{SECRET}")
    assert SECRET not in repr(found)
    assert SECRET.encode() not in b"".join(found.digests if found else ())


def test_every_known_token_is_compared_whatever_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(known: bytes, given: bytes) -> bool:
        compared.append(known)
        return known == given

    monkeypatch.setattr("hmac.compare_digest", compare)
    found = tokens(f"read:{OTHER},write:{SECRET},admin:{OTHER}{SECRET}")
    assert found is not None
    for given in (OTHER, SECRET, "nobody's"):
        compared.clear()
        found.find(given.encode())
        assert compared == list(found.digests)


def test_only_this_machine_may_be_served_without_tokens() -> None:
    for host in ("127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]"):
        assert is_loopback(host)
        check_open(host)
    for host in ("0.0.0.0", "::", "192.168.1.4", "shop.example", "", "localhost.example"):
        assert not is_loopback(host)
        with pytest.raises(SlatewiseError, match="accepts requests from every machine"):
            check_open(host)


def test_other_tokens_have_another_name() -> None:
    lines = [f"read:{letter * 20}" for letter in "abc"]
    sets = [lines, lines[:2], lines[::-1]]
    found = [read_tokens(None, {"SLATEWISE_TOKENS": ",".join(one)}) for one in sets]
    assert len({one.name for one in found if one is not None}) == 3
