import numpy as np
from scipy import stats

from slatewise.compiled.normals import normals_around

ZEROS, ONES = np.zeros(401, np.float32), np.ones(401, np.float32)


def test_numbers_have_the_normal_law_and_do_not_depend_on_each_other() -> None:
    rows = normals_around(np.random.default_rng(3), ZEROS, ONES, 2_000).astype(np.float64)
    numbers = rows.ravel()
    assert stats.kstest(numbers[:200_000], "norm").pvalue > 1e-3
    assert abs(numbers.mean()) < 4 / np.sqrt(numbers.size)
    assert abs(numbers.var() - 1) < 4 * np.sqrt(2 / numbers.size)
    assert abs((numbers**4).mean() - 3) < 4 * np.sqrt(96 / numbers.size)
    assert np.abs(numbers).max() > 4.5
    # Partners of a pair share a radius, and must not be like each other in size either.
    for one, other in ((rows[:, :200], rows[:, 201:]), (rows[:, 1:], rows[:, :-1])):
        for power in (1, 2):
            found = np.corrcoef((one**power).ravel(), (other**power).ravel())[0, 1]
            assert abs(found) < 4 / np.sqrt(one.size)


def test_numbers_lie_around_their_means_and_follow_the_generator() -> None:
    mean, scale = np.array([[1, -2, 5]], np.float32), np.array([[0, 0.5, 2]], np.float32)
    rows = normals_around(np.random.default_rng(1), mean, scale, 4_000)
    assert rows.shape == (4_000, 1, 3)
    np.testing.assert_array_equal(rows[:, 0, 0], 1)
    np.testing.assert_allclose(rows.mean(0)[0], [1, -2, 5], atol=0.13)
    np.testing.assert_allclose(rows.std(0)[0], [0, 0.5, 2], rtol=0.05)
    again = np.random.default_rng(1)
    np.testing.assert_array_equal(rows, normals_around(again, mean, scale, 4_000))
    assert (rows[:, 0, 1] != normals_around(again, mean, scale, 4_000)[:, 0, 1]).mean() > 0.99
    assert normals_around(again, mean[:0], scale[:0], 5).shape == (5, 0, 3)
