"""Nights in a shop where everybody wants one of three groups."""

import errno
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.evaluation import Estimate
from slatewise.service.nights import night as night_module
from slatewise.service.nights import retrain, window
from slatewise.service.nights.item_features import NO_FEATURES
from slatewise.service.nights.judgement import Score
from slatewise.service.nights.night import Rival
from slatewise.service.nights.report import REPORTS
from slatewise.service.nights.split import LEAST_JUDGED
from slatewise.service.nights.versions import Version
from slatewise.service.serving.models import Models
from slatewise.service.store import Store
from slatewise.service.store.workspace import FOLDER, workspace
from slatewise.training import runs
from tests.service.nights.world import (
    DAY,
    ITEMS,
    START,
    Item,
    Shelf,
    at_random,
    fill,
    night,
    settings,
    visits,
)

VISITS = visits()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service after its first night, at the end of day 2."""
    directory = tmp_path_factory.mktemp("trained") / "service"
    assert night(directory, Shelf(VISITS), 2).outcome == "promoted"
    return directory


@pytest.fixture
def service(trained: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    return Path(shutil.copytree(trained, tmp_path / "service"))


def main(service: Path) -> Models:
    return Models.of(service, "main")


def digests(service: Path, version: str) -> dict[str, str]:
    return dict(runs.read_run(main(service).path(version))["digests"])


def test_the_first_night_starts_from_nothing_and_serves(trained: Path) -> None:
    (file,) = (trained / "models" / "main" / REPORTS).glob("*.json")
    report = json.loads(file.read_text(encoding="utf-8"))
    assert (report["outcome"], report["serving"], report["before"]) == ("promoted", "1", None)
    assert report["started_from"] is None
    assert report["scores"]["new"]["log_likelihood"]["value"] > -1
    bins = report["scores"]["new"]["reliability"]
    assert sum(one["count"] for one in bins) == report["parts"]["judged"]
    assert all(0 <= one["observed"] <= 1 for one in bins)
    for fit in ("judged", "final"):
        curve = report["fits"][fit]["curve"]
        assert len(curve) == report["fits"][fit]["epochs"]
        best = report["fits"][fit]["validation_log_likelihood"]
        assert best >= max(curve) - 1e-5
    assert "reliability" not in report["scores"].get("gain", {})
    loaded = main(trained).load()
    assert loaded is not None
    assert loaded.model.calibration is not None
    assert runs.read_run(main(trained).path("1"))["retraining"]["until"] == START + 2 * DAY
    assert not (trained / FOLDER).exists()


def test_the_store_numbers_the_versions_of_all_hosts(
    service: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Shelf, "take_version", lambda self, model, least: 5 + least)
    assert night(service, Shelf(VISITS), 3).serving == "7"


def test_too_few_slates_change_nothing(tmp_path: Path) -> None:
    found = night(tmp_path, Shelf(VISITS), 0.1)
    assert found.outcome == "not enough"
    assert found.why.endswith("100 are needed")
    long_ago = night(tmp_path, Shelf(VISITS), 400)
    assert long_ago.why.endswith("100 are needed; a log that ended earlier is reached by --now")
    nobody = [replace(visit, clicked=()) for visit in VISITS]
    assert night(tmp_path, Shelf(nobody), 2).why == "there is no click in the window"
    assert night(tmp_path, Shelf([]), 2).outcome == "not enough"
    assert main(tmp_path).versions() == []


def test_slates_from_the_future_are_told_of(tmp_path: Path) -> None:
    found = visits(users=3, a_day=1)
    year = time.time_ns() // 1_000 + 365 * DAY
    ahead = [replace(visit, slate=replace(visit.slate, time=year)) for visit in found[:2]]
    result = night(tmp_path, Shelf([*found[2:], *ahead]), 4)
    assert result.outcome == "not enough"
    assert any("slatewise repair" in note for note in result.notes)


def test_a_second_retraining_right_after_the_first_has_nothing_to_judge_by(service: Path) -> None:
    found = night(service, Shelf(VISITS), 2.01)
    assert found.outcome == "not enough"
    assert f"{LEAST_JUDGED} of 2 users are needed" in found.why
    assert night(service, Shelf(VISITS), 2.01, settings(promote="always")).outcome == "promoted"


def test_the_next_night_goes_on_from_the_last_and_is_judged_on_what_neither_knew(
    service: Path,
) -> None:
    found = night(service, Shelf(VISITS), 3)
    assert (found.outcome, found.before, found.serving) == ("promoted", "1", "2")
    assert found.started_from == "1"
    assert found.parts["judged_from"] >= "2024-01-03"
    gain = found.scores["gain"]["log_likelihood"]
    assert abs(gain["value"]) < 0.05
    assert main(service).current().previous == ("1",)  # type: ignore[union-attr]
    assert "not worse" in "\n".join(found.words())


def test_a_model_that_learned_from_random_clicks_is_not_promoted(service: Path) -> None:
    found = night(service, Shelf(at_random(VISITS, 0, 2.2)), 3)
    assert (found.outcome, found.serving) == ("kept", "1")
    assert found.scores["gain"]["log_likelihood"]["high"] < -0.05
    assert "surely worse" in found.why
    assert main(service).versions() == ["1"]


def test_small_losses_are_borne_and_their_sum_over_nights_is_refused(
    service: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def level(version: int) -> Score:
        noise = np.random.default_rng(version).normal(0, 0.008, 2_000)
        found = Estimate.of(-0.018 * version, noise - 0.018 * version, 100, "the same")
        return Score(found, found)

    def judge(_: object, version: Version, *__: object) -> Rival:
        return Rival(version, level(int(version.name)), NO_FEATURES)

    monkeypatch.setattr(night_module, "_judge", judge)
    monkeypatch.setattr(night_module, "score", lambda *_: level(2))
    assert night(service, Shelf(VISITS), 3).serving == "2"
    assert runs.read_run(main(service).path("2"))["retraining"]["best"] == "1"
    monkeypatch.setattr(night_module, "score", lambda *_: level(3))
    found = night(service, Shelf(VISITS), 4)
    assert found.scores["gain"]["log_likelihood"]["high"] > 0  # beside what serves it would do
    assert (found.outcome, found.serving) == ("kept", "2")
    assert "version 1 was best of the last weeks" in found.why


def test_a_better_model_is_promoted_even_where_it_must_prove_it(tmp_path: Path) -> None:
    night(tmp_path, Shelf(at_random(VISITS, 0, 2)), 2)
    config = settings(promote="better")
    found = night(tmp_path, Shelf(VISITS), 3, config)
    assert (found.outcome, found.serving) == ("promoted", "2")
    assert found.scores["gain"]["log_likelihood"]["low"] > 0.1
    assert "final" not in found.fits  # what serves is what was judged
    about = runs.read_run(main(tmp_path).path("2"))["retraining"]
    assert START + 2 * DAY < about["until"] < START + 3 * DAY
    assert night(tmp_path, Shelf(VISITS), 3.5, config).outcome in ("kept", "promoted")


def test_a_version_that_turns_out_worse_than_the_one_before_is_taken_back(service: Path) -> None:
    bad, short = at_random(VISITS, 2, 3), {"window_days": 1}
    assert night(service, Shelf(bad), 3, settings(promote="always", **short)).serving == "2"
    found = night(service, Shelf(bad), 4, settings(promote="better", **short))
    assert found.scores["serving_over_the_one_before"]["log_likelihood"]["high"] < 0
    assert any("Taken back: version 2 was worse than 1" in note for note in found.notes)
    assert found.started_from == "1"
    assert "2" not in main(service).current().previous  # type: ignore[union-attr]


def test_only_the_window_is_learned_from(service: Path) -> None:
    config = settings(window_days=1)
    old = [replace(v, slate=replace(v.slate, items=("gone", *v.slate.items[1:])), clicked=("gone",))
           for v in VISITS if v.slate.time < START + 2 * DAY]  # fmt: skip
    new = [v for v in VISITS if v.slate.time >= START + 2 * DAY]
    with_past, without = (
        night(Path(shutil.copytree(service, service.with_name(name))), Shelf(log), 3, config)
        for name, log in (("with", old + new), ("without", new))
    )
    assert with_past.window == without.window
    assert with_past.scores == without.scores


def test_the_same_night_gives_the_same_model_and_another_log_another(
    trained: Path, tmp_path: Path
) -> None:
    night(tmp_path / "again", Shelf(VISITS[::-1]), 2)
    night(tmp_path / "other", Shelf([v for v in VISITS if v.slate.user_id != "user 7"]), 2)
    assert digests(tmp_path / "again", "1") == digests(trained, "1")
    assert digests(tmp_path / "other", "1") != digests(trained, "1")


def test_a_store_without_the_erased_and_with_latecomers_is_what_is_learned_from(
    service: Path,
) -> None:
    store = Store.open(f"sqlite:///{service}/store.sqlite")
    fill(store, VISITS)
    store.erase("user 5", START + 3 * DAY)
    found = night(service, store, 3)
    store.close()
    mine = [v for v in VISITS if v.slate.time < START + 3 * DAY and v.slate.user_id != "user 5"]
    assert found.outcome == "promoted"
    assert found.window["slates"] == len(mine)


def test_items_that_are_new_since_are_predicted_by_both_and_served_after(service: Path) -> None:
    lamp = Item("a new lamp", "lamps")
    renamed = [
        replace(v, slate=replace(v.slate, items=tuple(map(new_name, v.slate.items))),
                clicked=tuple(map(new_name, v.clicked))) if v.slate.time > START + 2 * DAY else v
        for v in VISITS
    ]  # fmt: skip
    found = night(service, Shelf(renamed, [*ITEMS, lamp]), 3)
    assert found.outcome == "promoted"
    assert found.window["unknown_items"] == 0
    loaded = main(service).load()
    assert loaded is not None
    vectors = loaded.model
    nearest = vectors.similar_items("a new lamp", 3)
    assert all(str(item).startswith("lamps") for item, _ in nearest)


def new_name(item: str) -> str:
    return "a new lamp" if item == "lamps-0" else item


def test_where_the_configuration_forbids_a_warm_start_training_starts_from_nothing(
    service: Path,
) -> None:
    spec = settings().models["main"]
    wider = spec.model.model_copy(update={"dimensions": 3})
    models = {"main": spec.model_copy(update={"model": wider}).model_dump(exclude_unset=True)}
    found = night(service, Shelf(VISITS), 3, settings().changed(models=models))
    assert found.started_from is None
    assert any("other dimensions" in note for note in found.notes)
    assert "gain" in found.scores  # the old one was judged as what it is


def test_a_fresh_start_forgets_what_served(service: Path) -> None:
    found = night(service, Shelf(VISITS), 3, fresh=True)
    assert found.started_from is None
    assert "gain" in found.scores


def test_a_damaged_version_is_said_and_the_one_before_is_gone_on_from(service: Path) -> None:
    night(service, Shelf(VISITS), 3)
    damage(main(service).path("2"))
    found = night(service, Shelf(VISITS), 4)
    assert found.started_from == "1"
    assert any("version 2 cannot serve" in note for note in found.notes)
    assert found.serving == "3"


def test_where_no_version_is_whole_training_starts_from_nothing(service: Path) -> None:
    damage(main(service).path("1"))
    found = night(service, Shelf(VISITS), 3)
    assert found.started_from is None
    assert any("No version is whole" in note for note in found.notes)
    assert (found.outcome, found.serving) == ("promoted", "2")


def damage(run: Path) -> None:
    file = run / runs.POSTERIOR
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def full(*arguments: object, **more: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("module", "name"),
    [(window, "export_window"), (window, "prepare"), (night_module.runs, "write_model")],
)
def test_a_full_disk_is_said_and_the_old_model_serves_on(
    service: Path, monkeypatch: pytest.MonkeyPatch, module: object, name: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, name, full)
        found = night(service, Shelf(VISITS), 3)
    assert (found.outcome, found.serving) == ("failed", "1")
    assert "No space left" in found.why
    assert not (service / FOLDER).exists()
    assert night(service, Shelf(VISITS), 3).serving == "2"


def test_ctrl_c_leaves_the_old_model_and_no_copy(
    service: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(*arguments: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(night_module, "fit_recipe", press)
    with pytest.raises(KeyboardInterrupt):
        night(service, Shelf(VISITS), 3)
    assert not (service / FOLDER).exists()
    assert main(service).current().version == "1"  # type: ignore[union-attr]


def test_one_model_that_fails_does_not_keep_another_from_its_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = settings().models["main"].model_dump(exclude_unset=True)
    config = settings().changed(models={"main": spec, "other": spec})
    learned: Callable[..., object] = night_module.fit_recipe
    calls: list[int] = []

    def fail_once(*arguments: object) -> object:
        calls.append(1)
        if len(calls) == 1:
            raise SlatewiseError("the steps were not finite.", "Lower the rate.")
        return learned(*arguments)

    monkeypatch.setattr(night_module, "fit_recipe", fail_once)
    first, second = retrain(tmp_path, config, Shelf(VISITS), now=START + 2 * DAY)
    assert (first.outcome, second.outcome) == ("failed", "promoted")
    assert "not finite" in first.why
    assert json.loads(json.dumps(second.to_json()))["model"] == "other"


def test_two_at_once_and_unknown_models_are_refused(tmp_path: Path) -> None:
    with workspace(tmp_path), pytest.raises(SlatewiseError, match="being retrained already"):
        night(tmp_path, Shelf(VISITS), 2)
    with pytest.raises(SlatewiseError, match="no model 'x'"):
        retrain(tmp_path, settings(), Shelf(VISITS), now=START, names=["x"])


def test_old_versions_go(service: Path) -> None:
    config = settings(promote="always", keep=2)
    for day in (3, 4):
        night(service, Shelf(VISITS), day, config)
    assert main(service).versions() == ["2", "3"]
