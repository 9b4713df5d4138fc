from slatewise.features import positions
from tests.features.logs import random_log, slate


def test_items_are_counted_from_0_in_every_slate() -> None:
    log = random_log(0)
    wanted = [position for n in range(len(log.clicks)) for position in range(len(slate(log, n)))]
    assert positions(log).tolist() == wanted
