import numpy as np

from slatewise.ranking.filters import rules
from slatewise.ranking.request import Ranking


def capped_top(table, scores, k, filter):
    r = rules(table, filter)
    n = table.num_items
    ok = table.available.copy()
    ok[r.excluded] = False
    if len(r.allowed):
        ok &= r.allowed
    order = np.lexsort((np.arange(n), -scores))
    used = {}
    items, out = np.full(k, -1), np.full(k, -np.inf)
    count = 0
    for i in order:
        if count == k:
            break
        g = int(table.groups[i])
        if not ok[i] or (len(r.caps) and 0 <= r.caps[g] <= used.get(g, 0)):
            continue
        used[g] = used.get(g, 0) + 1
        items[count], out[count] = i, scores[i]
        count += 1
    return Ranking(items, out)


def stacked(rankings):
    return Ranking(*(np.stack(part) for part in zip(*rankings, strict=True)))
