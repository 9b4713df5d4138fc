"""Download of the FINN.no slate dataset from its authors' storage."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slatewise.data.public.drive import DRIVE, file_url
from slatewise.data.public.fetcher import Fetcher, FetchError
from slatewise.data.public.npz import BROKEN_ARCHIVE

HUB: Final = "https://huggingface.co/datasets/simeneide/recsys_slates_dataset/resolve/main/data"


@dataclass(frozen=True)
class PublishedFile:
    """A published file: its addresses, contents and checksum."""

    name: str
    drive_id: str
    hub_name: str
    arrays: frozenset[str] = frozenset()
    """Arrays an .npz file has to hold; empty for the JSON file."""

    sha256: str | None = None
    """Of the copy in the authors' repository (its Git LFS pointer); not known for every file."""

    def check(self, file: Path, *, thorough: bool) -> str | None:
        """Return what is wrong with a file, or None; `thorough` also compares its checksums."""
        try:
            if not self.arrays:
                held = set(json.loads(file.read_text(encoding="utf-8")))
                return None if "category" in held else "there are no category names in it"
            with zipfile.ZipFile(file) as archive:
                missing = self.arrays - {name.removesuffix(".npy") for name in archive.namelist()}
                if missing:
                    return f"the arrays {', '.join(sorted(missing))} are missing"
                damaged = archive.testzip() if thorough else None
                return f"{damaged} does not match its checksum" if damaged else None
        except (*BROKEN_ARCHIVE, TypeError) as error:
            return str(error)

    def verdict(self, file: Path) -> str:
        """Describe how the file was verified."""
        if self.sha256 is None:
            return "complete (no checksum is published)"
        with file.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
        if found == self.sha256:
            return "complete, checksum as published"
        return "complete, but not the same bytes as the copy in the authors' repository"


FINN_FILES: Final = (
    PublishedFile(
        "ind2val.json",
        "1WOCKfuttMacCb84yQYcRjxjEtgPp6F4N",
        "ind2val.json",
        sha256="b572ae5731f861b5f67944b3035abad62691d833368b9ec2b9f7295b2fe33269",
    ),
    PublishedFile(
        "itemattr.npz",
        "1rKKyMQZqWp8vQ-Pl1SeHrQxzc5dXldnR",
        "itemattr.npz",
        frozenset({"category"}),
        sha256="07e4834536f351246736824abe6847a6dd8019b8e5ca676b52ae24838aa71333",
    ),
    # The int32 edition, which the authors' own loader prefers; the int64 one holds the same.
    PublishedFile(
        "data.npz",
        "1XHqyk01qi9qnvBTfWWwqgDzrdjv1eBVV",
        "data32.npz",
        frozenset({"userId", "click", "click_idx", "slate", "slate_lengths", "interaction_type"}),
    ),
)


def download_finn(
    folder: str | Path,
    *,
    base_url: str = DRIVE,
    fetcher: Fetcher | None = None,
    checking: Callable[[str], None] = lambda name: None,
) -> dict[str, str]:
    """Download missing files and return, for each file, how it was verified.

    A file gets its name only once it is complete and sound; until then it is a `.part` file,
    which the next call resumes.
    """
    folder, fetcher = Path(folder), fetcher or Fetcher()
    folder.mkdir(parents=True, exist_ok=True)
    verdicts = {}
    for published in FINN_FILES:
        target = folder / published.name
        part = folder / f"{published.name}.part"
        if target.is_file() and published.check(target, thorough=False) is None:
            verdicts[published.name] = f"there already, {published.verdict(target)}"
            continue
        try:
            # An earlier call may have ended between the last byte and the new name.
            if not part.is_file() or published.check(part, thorough=False) is not None:
                fetcher.fetch(file_url(published.drive_id, base_url), part)
            checking(published.name)
            problem = published.check(part, thorough=True)
            if problem:
                # Going on with it would only lengthen a bad file.
                part.unlink()
                raise FetchError(f"{published.name} arrived damaged: {problem}.")
        except FetchError as error:
            raise FetchError(error.problem, by_hand(folder)) from error
        part.replace(target)
        verdicts[published.name] = published.verdict(target)
    return verdicts


def by_hand(folder: Path) -> str:
    """Return instructions to download the files by hand."""
    lines = [
        "Run the command again to go on where it stopped, or fetch the files in a browser"
        f" (either address of each) and put them in {folder} under these names:"
    ]
    for published in FINN_FILES:
        lines.append(f"  {published.name}")
        lines.append(f"    {file_url(published.drive_id)}")
        lines.append(f"    {HUB}/{published.hub_name}")
    lines.append(f"Then: slatewise import finn {folder} OUT")
    return "\n".join(lines)
