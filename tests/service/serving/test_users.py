"""What a model made of a user's history is kept as long as it is true."""

import numpy as np
import pytest

from slatewise.service.serving.items import ItemLog
from slatewise.service.serving.users import User
from tests.service.serving.test_catalogue import TRAINED, catalogue_of
from tests.service.serving.test_known_users import Given, history_of

VISITS: Given = [(list(TRAINED), 3, 1, "search"), (list(TRAINED), 2, 0, "recommendation")]
OTHERS: list[Given] = [
    VISITS[:1],
    VISITS[::-1],
    [(list(TRAINED), 3, 2, "search"), VISITS[1]],
    [(list(TRAINED), 2, 1, "search"), VISITS[1]],
    [(list(TRAINED)[::-1], 3, 1, "search"), VISITS[1]],
    [(list(TRAINED), 3, 1, "recommendation"), VISITS[1]],
    [],
]


def test_the_same_past_is_told_as_before() -> None:
    log = ItemLog()
    model = catalogue_of(log), np.arange(2)
    before, again = (User(history_of(VISITS, log), 9, stamp, 0.0) for stamp in (1, 2))
    known = before.knowing(())(*model)
    again.remember(before)
    assert again.knowing(())(*model) is known


@pytest.mark.parametrize("visits", OTHERS)
def test_another_past_is_told_anew(visits: Given) -> None:
    log = ItemLog()
    model = catalogue_of(log), np.arange(2)
    before, again = (User(history_of(given, log), 9, 1, 0.0) for given in (VISITS, visits))
    known = before.knowing(())(*model)
    again.remember(before)
    assert again.knowing(())(*model) is not known
