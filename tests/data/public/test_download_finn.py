import dataclasses
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from published import write_finn
from serving import Server, serve

from slatewise.data.public import download, download_finn, import_public
from slatewise.data.public.download import FINN_FILES
from slatewise.data.public.fetcher import Fetcher, FetchError

FETCHER = Fetcher(attempts=2, pause_s=0, timeout_s=5)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def contents(tmp_path: Path) -> dict[str, bytes]:
    source = write_finn(tmp_path / "published")
    return {file.drive_id: (source / file.name).read_bytes() for file in FINN_FILES}


@pytest.fixture
def server(contents: dict[str, bytes]) -> Iterator[Server]:
    with serve(Server(contents)) as running:
        yield running


DATA = FINN_FILES[-1].drive_id


def fetched(folder: Path) -> dict[str, bytes]:
    return {file.drive_id: (folder / file.name).read_bytes() for file in FINN_FILES}


def test_the_files_arrive_whole_and_can_be_imported(server: Server, tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    fetcher = dataclasses.replace(FETCHER, progress=lambda *now: told.append(now))
    verdicts = download_finn(tmp_path / "finn", base_url=server.url, fetcher=fetcher)
    assert fetched(tmp_path / "finn") == server.files
    assert sorted(path.name for path in (tmp_path / "finn").iterdir()) == sorted(verdicts)
    assert verdicts["data.npz"] == "complete (no checksum is published)"
    assert "not the same bytes" in verdicts["itemattr.npz"]
    size = len(server.files[DATA])
    assert told[-1] == ("data.npz", size, size)
    assert import_public("finn", tmp_path / "finn", tmp_path / "out").written == 5


def test_complete_files_are_not_fetched_again(server: Server, tmp_path: Path) -> None:
    download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    server.asked.clear()
    (tmp_path / "itemattr.npz").write_bytes(b"broken")
    verdicts = download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    assert [name for name, _ in server.asked] == [FINN_FILES[1].drive_id]
    assert verdicts["data.npz"].startswith("there already")
    assert fetched(tmp_path) == server.files


def test_a_published_checksum_is_compared(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in server.files.items()}
    files = [dataclasses.replace(file, sha256=digests[file.drive_id]) for file in FINN_FILES]
    monkeypatch.setattr(download, "FINN_FILES", files)
    verdicts = download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    assert set(verdicts.values()) == {"complete, checksum as published"}


def test_a_transfer_that_breaks_off_goes_on_where_it_stopped(
    server: Server, tmp_path: Path
) -> None:
    names = len(server.files[FINN_FILES[0].drive_id])
    server.break_after = [10, names, 7]
    download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    assert fetched(tmp_path) == server.files
    first, second = FINN_FILES[0].drive_id, FINN_FILES[1].drive_id
    assert server.asked[:4] == [
        (first, ""),
        (first, "bytes=10-"),
        (second, ""),
        (second, "bytes=7-"),
    ]


def test_the_next_call_goes_on_too(server: Server, tmp_path: Path) -> None:
    server.break_after = [10, 0, 0]
    with pytest.raises(FetchError, match="closed after 10 of"):
        download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["ind2val.json.part"]
    server.asked.clear()
    download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    assert server.asked[0] == (FINN_FILES[0].drive_id, "bytes=10-")
    assert fetched(tmp_path) == server.files


def test_a_server_without_ranges_starts_anew(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    server.break_after = [10]
    download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    assert fetched(tmp_path) == server.files


def test_a_part_longer_than_the_file_is_started_anew(server: Server, tmp_path: Path) -> None:
    (tmp_path / "ind2val.json.part").write_bytes(b"x" * 10_000)
    download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    assert fetched(tmp_path) == server.files


def test_a_complete_part_only_needs_its_name(server: Server, tmp_path: Path) -> None:
    (tmp_path / "ind2val.json.part").write_bytes(server.files[FINN_FILES[0].drive_id])
    download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    assert FINN_FILES[0].drive_id not in dict(server.asked)


def test_a_part_of_another_file_is_found_out_and_thrown_away(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "data.npz.part").write_bytes(b"x" * 10)
    with pytest.raises(FetchError, match="arrived damaged"):
        download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    assert not (tmp_path / "data.npz.part").exists()
    download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    assert fetched(tmp_path) == server.files


def test_a_confirmation_page_is_answered(server: Server, tmp_path: Path) -> None:
    server.confirm = {DATA}
    server.sized = False
    download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    assert fetched(tmp_path) == server.files


def test_resuming_goes_through_the_confirmation_page(server: Server, tmp_path: Path) -> None:
    server.confirm = {DATA}
    (tmp_path / "data.npz.part").write_bytes(server.files[DATA][:100])
    download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    assert server.asked[-1] == (DATA, "bytes=100-")
    assert fetched(tmp_path) == server.files


def test_a_page_instead_of_the_file_is_quoted(server: Server, tmp_path: Path) -> None:
    server.page = "<html><head><title>Google Drive -\n Quota exceeded</title></head></html>"
    with pytest.raises(FetchError, match="Google Drive - Quota exceeded"):
        download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    assert not list(tmp_path.glob("*.part"))


def test_a_page_after_the_confirmation_is_an_error(server: Server, tmp_path: Path) -> None:
    server.page = '<title>Again</title><form id="downloadForm" action="/uc?id=1&amp;x=2"></form>'
    with pytest.raises(FetchError, match="Again"):
        download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    assert [name for name, _ in server.asked] == [FINN_FILES[0].drive_id, "1"]


def test_a_missing_file_comes_with_what_to_do_by_hand(server: Server, tmp_path: Path) -> None:
    server.files.clear()
    with pytest.raises(FetchError, match="answered 404") as error:
        download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    for file in FINN_FILES:
        assert file.name in error.value.remedy
        assert f"https://drive.google.com/uc?export=download&id={file.drive_id}" in (
            error.value.remedy
        )
    assert f"slatewise import finn {tmp_path} OUT" in error.value.remedy
    assert len(server.asked) == 1


def test_a_passing_refusal_is_tried_again(server: Server, tmp_path: Path) -> None:
    server.statuses = [503]
    download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    assert fetched(tmp_path) == server.files
    server.statuses = [503, 503]
    with pytest.raises(FetchError, match="Service Unavailable"):
        download_finn(tmp_path / "more", base_url=server.url, fetcher=FETCHER)


def test_without_a_network_the_files_can_be_fetched_by_hand(
    server: Server, tmp_path: Path, contents: dict[str, bytes]
) -> None:
    with serve(Server(contents)) as gone:
        pass
    with pytest.raises(FetchError, match="refused") as error:
        download_finn(tmp_path, base_url=gone.url, fetcher=FETCHER)
    assert "huggingface.co" in error.value.remedy


@pytest.mark.parametrize(
    ("number", "content", "problem"),
    [(0, b"{}", "no category names"), (0, b"[", "damaged"), (2, None, "arrays click")],
)
def test_a_file_with_the_wrong_content_is_refused(
    server: Server, tmp_path: Path, number: int, content: bytes | None, problem: str
) -> None:
    itemattr = server.files[FINN_FILES[1].drive_id]
    server.files[FINN_FILES[number].drive_id] = itemattr if content is None else content
    with pytest.raises(FetchError, match=problem):
        download_finn(tmp_path, base_url=server.url, fetcher=FETCHER)
    assert not (tmp_path / FINN_FILES[number].name).exists()
