"""What tensors must be like before a compiled loop reads them, which checks nothing."""

from torch import Tensor


def check_shapes(
    states: Tensor,
    items: Tensor,
    no_click: Tensor,
    state_of: Tensor,
    cells: Tensor,
    offsets: Tensor,
    clicks: Tensor,
    weights: Tensor,
) -> None:
    """Refuse tensors of a batch of slates that do not go together."""
    check_items(states, items)
    if cells.ndim != 1:
        raise ValueError(f"cells must be one row, not {list(cells.shape)}")
    count = len(clicks)
    check_lengths(
        (clicks, count, "clicks"),
        (no_click, count, "no_click"),
        (state_of, count, "state_of"),
        (weights, count, "weights"),
        (offsets, count + 1, "offsets"),
    )


def check_items(states: Tensor, items: Tensor) -> None:
    """Refuse rows of items that are not D long, or D + 1 with a bias."""
    if states.ndim != 2 or items.ndim != 2 or items.shape[1] - states.shape[1] not in (0, 1):
        raise ValueError(f"states {list(states.shape)} and items {list(items.shape)} must share D")


def check_features(features: Tensor | None, weights: Tensor | None, num_cells: int) -> None:
    """Refuse features of cells without a weight for each, and weights without features."""
    if features is None and weights is None:
        return
    if features is None or weights is None or features.shape != (num_cells, *weights.shape):
        shapes = [None if part is None else list(part.shape) for part in (features, weights)]
        raise ValueError(f"features and their weights must be [{num_cells}, P], [P], not {shapes}")


def check_lengths(*expected: tuple[Tensor | None, int, str]) -> None:
    """Refuse tensors that are given and do not have the length expected of them."""
    for tensor, length, name in expected:
        if tensor is not None and tensor.shape != (length,):
            raise ValueError(f"{name} must be [{length}], not {list(tensor.shape)}")
