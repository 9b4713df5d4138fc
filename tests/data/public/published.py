"""Small files in the layouts the datasets are published in."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from slatewise.data.public import Tally, import_public

GROUPS = {
    "0": "PAD",
    "1": "noClick",
    "2": "<UNK>",
    "3": "BAP,antiques,Trøndelag",
    "4": "MOTOR,,Oslo",
}
ITEM_GROUPS = [0.0, 1.0, 2.0, 3.0, 3.0, 4.0, 4.0, 4.0]
"""Items 3 to 7 are real; the published array is float64."""

S, T = 5, 3


def finn_arrays() -> dict[str, np.ndarray[Any, Any]]:
    """Three users, three steps, five positions."""
    pad = [0] * S
    slate = [
        # user 11: search with a click, recommendation without one, padding
        [[1, 3, 4, 5, 0], [1, 6, 7, 0, 0], pad],
        # user 12: an unknown item among known ones, a click on an unknown item, only unknown items
        [[1, 2, 7, 0, 0], [1, 3, 2, 0, 0], [1, 2, 0, 0, 0]],
        # user 13: a shortened slate, a click on the item taken out of it, a full slate
        [[1, 5, 6, 0, 0], [1, 3, 0, 0, 0], [1, 3, 5, 7, 4]],
    ]
    return {
        "userId": np.array([11, 12, 13]),
        "click": np.array([[4, 1, 0], [7, 2, 1], [6, 4, 4]]),
        "click_idx": np.array([[2, 0, 0], [2, 2, 0], [3, 2, 4]]),
        "slate_lengths": np.array([[4, 3, 0], [3, 3, 2], [4, 3, 5]]),
        "slate": np.array(slate),
        "interaction_type": np.array([[1, 2, 0], [2, 1, 1], [1, 1, 2]]),
    }


def write_finn(
    folder: Path,
    arrays: dict[str, np.ndarray[Any, Any]] | None = None,
    *,
    dtype: type = np.int32,
    compressed: bool = True,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save = np.savez_compressed if compressed else np.savez
    arrays = finn_arrays() if arrays is None else arrays
    save(folder / "data.npz", **{name: array.astype(dtype) for name, array in arrays.items()})
    np.savez_compressed(folder / "itemattr.npz", category=np.array(ITEM_GROUPS))
    names = {"category": GROUPS, "interaction_type": {"1": "search", "2": "rec", "0": "<UNK>"}}
    (folder / "ind2val.json").write_text(json.dumps(names))
    return folder


BEHAVIORS = [
    "1\tU1\t11/15/2019 8:55:22 AM\tN9 N8\tN1-0 N2-1 N3-0",
    "2\tU2\t11/9/2019 12:05:01 PM\t\tN3-1 N1-1",
    "3\tU1\t11/16/2019 11:00:00 PM\tN9\tN4-0 N2-0",
]
NEWS = [
    'N1\tsports\tgolf\tA "hole" in one\tabstract\thttps://x/1\t[]\t[]',
    "N2\tnews\tnewsus\tPlain, with a comma\t\thttps://x/2\t[]\t[]",
    'N3\tnews\tnewsworld\t"Unbalanced quote\t\thttps://x/3\t[]\t[]',
]


def write_mind(folder: Path, behaviors: list[str] = BEHAVIORS, news: list[str] = NEWS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "behaviors.tsv").write_text("".join(f"{line}\n" for line in behaviors))
    (folder / "news.tsv").write_text("".join(f"{line}\n" for line in news))
    return folder


LOG_HEADER = (
    "user_id,video_id,date,hourmin,time_ms,is_click,is_like,is_follow,is_comment,is_forward,"
    "is_hate,long_view,play_time_ms,duration_ms,profile_stay_time,comment_stay_time,"
    "is_profile_enter,is_rand,tab"
)
VIDEO_HEADER = (
    "video_id,author_id,video_type,upload_dt,upload_type,visible_status,video_duration,"
    "server_width,server_height,music_id,music_type,tag"
)
VIDEOS = [
    '100,7,NORMAL,2022-04-01,ShortImport,1,17200.0,720,1280,9,4,"12,65"',
    "101,8,AD,2022-04-02,ShortImport,1,,720,1280,9,4,3",
    "102,8,NORMAL,2022-04-02,ShortImport,1,9000.0,720,1280,9,,",
]


def kuairand_row(user: int, video: int, time_ms: int, click: int, rand: int) -> str:
    return f"{user},{video},20220421,400,{time_ms},{click},0,0,0,0,0,0,0,1000,0,0,0,{rand},1"


def write_kuairand(
    folder: Path,
    standard: list[str],
    random: list[str],
    videos: list[str] = VIDEOS,
    version: str = "pure",
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, header, rows in (
        (f"log_standard_4_08_to_4_21_{version}.csv", LOG_HEADER, standard),
        (f"log_random_4_22_to_5_08_{version}.csv", LOG_HEADER, random),
        (f"video_features_basic_{version}.csv", VIDEO_HEADER, videos),
    ):
        (folder / name).write_text("\n".join([header, *rows]) + "\n")
    return folder


def imported(
    dataset: str, source: Path, out: Path, chunk_size: int = 200_000
) -> tuple[pl.DataFrame, pl.DataFrame, Tally]:
    tally = import_public(dataset, source, out, chunk_size=chunk_size)
    log, items = pl.read_parquet(out / "log.parquet"), pl.read_parquet(out / "items.parquet")
    assert tally.read == tally.written + tally.left_out.total()
    assert (tally.written, tally.items) == (log.height, items.height)
    return log, items, tally
