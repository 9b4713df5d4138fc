"""The histograms of `slatewise describe`."""

from slatewise.cli.describe import binned


def test_short_histograms_stay_and_long_ones_have_at_most_25_bins_of_one_width() -> None:
    short = {str(number): number for number in range(1, 26)}
    assert binned(short) == short
    long = {str(number): 1 for number in range(1, 61)}
    found = binned(long)
    assert list(found)[:2] == ["1-3", "4-6"]
    assert len(found) == 20
    assert set(found.values()) == {3}
    far = binned(long | {"1000": 7})
    assert len(far) <= 25
    assert far["961-1000"] == 7
    assert sum(far.values()) == 67
