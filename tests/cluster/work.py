"""Work for processes of a cluster: a module that is quick to load."""

from slatewise.errors import SlatewiseError


def doubled(number: int) -> int:
    if number < 0:
        raise SlatewiseError(f"{number} is negative.", "Give another.")
    return 2 * number
