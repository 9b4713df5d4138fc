import pytest

from slatewise.errors import SlatewiseError
from slatewise.experiments.tuning.config import TuneConfig
from slatewise.experiments.tuning.space import Space, known_ranges
from slatewise.experiments.variants import VARIANTS
from slatewise.training.config import TrainingConfig


def space(variant: str = "slate-gru-hier", **settings: object) -> Space:
    return TuneConfig.build({"preset": "tiny", **settings}, "test").space(variant)


@pytest.mark.parametrize(
    ("variant", "missing"),
    [
        ("slate-gru-hier", {"sigma_v"}),
        ("slate-linear-hier", {"sigma_rnn", "sigma_v"}),
        ("slate-gru-flat", {"kappa_mu", "kappa_sigma"}),
    ],
)
def test_only_settings_that_a_model_has_are_searched(variant: str, missing: set[str]) -> None:
    assert set(space(variant).ranges) == set(known_ranges()) - missing


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_defaults_lie_inside_the_ranges(variant: str) -> None:
    found = space(variant)
    assert found.rounded(found.defaults()) == found.defaults()


def test_the_defaults_are_those_of_the_settings_around_the_search() -> None:
    found = space(model={"kappa_mu": 3.0}, training=TrainingConfig(learning_rate=0.05))
    assert found.defaults()["kappa_mu"] == 3.0
    assert found.defaults()["learning_rate"] == 0.05
    assert space("all-item-gru-hier").defaults()["learning_rate"] == 0.02


def test_a_range_that_leaves_the_defaults_out_moves_the_first_trial_but_not_the_defaults() -> None:
    found = space(ranges={"sigma_max": (2.0, 3.0)})
    assert found.defaults()["sigma_max"] == 1.0
    assert found.rounded(found.defaults())["sigma_max"] == 2.0


def test_sobol_points_fill_every_range_evenly_in_logarithms() -> None:
    found = space()
    points = [found.sobol(number, seed=3) for number in range(16)]
    for name, (low, high) in found.ranges.items():
        middle = (low * high) ** 0.5
        assert all(low <= point[name] <= high for point in points)
        # A Sobol sequence puts half of its first 16 points into each half of every axis.
        assert sum(point[name] < middle for point in points) == 8, name


def test_a_sobol_point_depends_on_its_number_and_the_seed_alone() -> None:
    assert space().sobol(4, seed=1) == space().sobol(4, seed=1)
    assert space().sobol(4, seed=1) != space().sobol(4, seed=2)
    assert space().sobol(4, seed=1) != space().sobol(5, seed=1)


def test_a_grid_is_even_in_logarithms_and_has_both_ends() -> None:
    grid = space(ranges={"sigma_rnn": (0.01, 100.0)}).grid("sigma_rnn", 5)
    assert grid == pytest.approx([0.01, 0.1, 1.0, 10.0, 100.0])


def test_a_point_becomes_the_configurations_that_train_takes() -> None:
    found = space("slate-linear-hier", model={"dimensions": 4})
    point = found.sobol(0, seed=0)
    model, training = found.configs(point)
    assert (model.dynamics, model.dimensions) == ("linear", 4)
    assert training.learning_rate == point["learning_rate"]
    for name in set(found.ranges) - {"learning_rate"}:
        assert getattr(model, name) == point[name] == float(f"{point[name]:.4g}")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"ranges": {"memory": (0.1, 0.5)}}, "'memory' is not searched"),
        ({"ranges": {"sigma_max": (2.0, 1.0)}}, "range of sigma_max, 2 to 1, is not possible"),
        ({"ranges": {"temperature": (0.1, 2.0)}}, "range of temperature"),
        ({"ranges": {"kappa_mu": (0.0, 1.0)}}, "range of kappa_mu"),
        ({"variants": ("slate-gru",)}, "there is no variant 'slate-gru'"),
        ({"variants": ("slate-gru-hier",) * 2}, "given twice"),
    ],
)
def test_a_search_that_is_not_possible_is_refused(settings: object, problem: str) -> None:
    with pytest.raises(SlatewiseError, match=problem):
        space(**settings)  # type: ignore[arg-type]
