"""Reading a dataset back into rows, the slow and obvious way."""

from typing import Any

from slatewise.data import SlateDataset


def rows_of(dataset: SlateDataset) -> dict[Any, list[tuple[int, tuple[Any, ...], Any, str]]]:
    """Return user id -> [(time, slate, click, source)] with the ids people know."""
    items = dataset.item_ids.to_list()
    users = dataset.user_ids.to_list()
    result: dict[Any, list[tuple[int, tuple[Any, ...], Any, str]]] = {}
    for number, user in enumerate(users):
        rows = []
        for i in range(int(dataset.user_offsets[number]), int(dataset.user_offsets[number + 1])):
            start, stop = dataset.slate_offsets[i], dataset.slate_offsets[i + 1]
            slate = tuple(items[code] for code in dataset.slate_items[start:stop])
            position = int(dataset.clicks[i])
            click = slate[position] if position >= 0 else None
            source = dataset.source_names[dataset.sources[i]]
            rows.append((int(dataset.times[i]), slate, click, source))
        result[user] = rows
    assert len(result) == len(users)
    return result
