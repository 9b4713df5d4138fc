import torch

from slatewise.features import cells_of_users
from tests.features.logs import random_log


def test_gathered_cells_stand_beside_the_gathered_interactions() -> None:
    log = random_log(0, users=20)
    users = torch.tensor([7, 3, 19, 3, 0])
    for ends in (None, torch.tensor([2, 0, 100, 3, 1])):
        gathered = log.slate_items[cells_of_users(log, users, ends)]
        assert torch.equal(gathered, log.of_users(users, ends).slate_items)


def test_no_users_have_no_cells() -> None:
    assert len(cells_of_users(random_log(0), torch.zeros(0, dtype=torch.int64))) == 0
