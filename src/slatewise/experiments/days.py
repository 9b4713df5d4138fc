"""The online loop: serve by day, record, retrain at night.

Users are in one arm for ever. Search answers everybody alike; recommendation slates come from the
arm's model and strategy. Arms with the same model share it: it learns from the log of all arms.
Where items come and go, a night learns of those that were on offer in its window, starting from
what was known of them the night before; items that appear after it are served as new ones.
"""

from collections.abc import Container, Mapping, Sequence
from pathlib import Path

import polars as pl
import torch

from slatewise.data.dataset import SlateDataset
from slatewise.evaluation import settle_candidates
from slatewise.experiments.daily_log import FEATURE
from slatewise.experiments.model_policy import ModelPolicy, ServedModel
from slatewise.experiments.online import Arm, OnlineConfig
from slatewise.experiments.outcomes import Outcomes
from slatewise.experiments.platform import Platform
from slatewise.experiments.store import Tables
from slatewise.experiments.study import Bench
from slatewise.experiments.variants import variant_config
from slatewise.features.item_columns import Kind, read_item_columns
from slatewise.model.fitted import SlateModel
from slatewise.model.item_features import ItemFeatures
from slatewise.slates.strategies import named_strategy
from slatewise.training import fit
from slatewise.training.unused import training_of


def run_days(
    config: OnlineConfig,
    seed: int,
    arms: Sequence[Arm],
    days: int,
    bench: Bench,
    *,
    lost: Container[int] = (),
) -> Tables:
    """Run an experiment and return the tables of `Outcomes`; searches of `lost` days are lost."""
    platform = Platform(config, config.simulated(seed), days, len(arms), bench.scratch)
    outcomes = Outcomes(config, seed, arms, platform.market)
    models: dict[str, SlateModel] = {}
    served: dict[str, ServedModel] = {}
    platform.warm_up()
    for day in range(days):
        bench.progress(f"seed {seed}, day {day + 1}", day, days)
        dataset = platform.log.dataset(day)  # of the past alone: the day is yet to come
        before = {name: one.learned() for name, one in served.items()}
        for variant in dict.fromkeys(arm.variant for arm in arms):
            models[variant] = retrain(
                *(config, before, variant, dataset, 1_000 * seed + day), platform.log.table
            )
        served = {
            name: ServedModel(model, dataset, platform, learning=config.between_nights)
            for name, model in models.items()
        }
        k = platform.market.config.max_slate
        policies = [
            ModelPolicy(served[arm.variant], named_strategy(arm.strategy), k) for arm in arms
        ]
        met = platform.day(day, policies, lost=day in lost)
        outcomes.add(day, met, models, dataset)
    return outcomes.tables()


def retrain(
    config: OnlineConfig,
    models: Mapping[str, SlateModel],
    variant: str,
    dataset: SlateDataset,
    seed: int,
    items: Path | None = None,
) -> SlateModel:
    """Fit a variant to a night's dataset, from where it was the night before if there was one.

    `items` is the items table of the night, for models that read features. A platform knows what is
    on offer, so that weights of choices within slates rank unless the settings say otherwise: those
    of the next click follow what the site shows; without a network their slates were worse in news.
    """
    model = variant_config(variant, config.model, item_features=config.item_features)
    if "ranking" not in config.model and model.likelihood != "all-item":
        settings = {**config.model, "ranking": "slate"}
        model = variant_config(variant, settings, item_features=config.item_features)
    training = config.nightly if variant in models else config.training
    fitted = fit(
        dataset,
        model,
        training_of(model, training),
        seed=seed,
        device=config.device,
        start=models.get(variant),
        item_features=(
            _features(dataset, items, models.get(variant))
            if config.item_features and items is not None
            else None
        ),
    )
    settle_candidates(fitted, dataset, seed=seed)
    return fitted


def _features(dataset: SlateDataset, items: Path, earlier: SlateModel | None) -> ItemFeatures:
    """Read the features of a night's items, encoded as they were the night before."""
    names = pl.read_parquet_schema(items)
    kinds: dict[str, Kind] = {name: "number" for name in names if name.startswith(FEATURE)}
    encoder = None if earlier is None else earlier.item_encoder
    if encoder is None:
        return ItemFeatures.read(dataset, items, kinds)
    columns = read_item_columns(dataset, items, kinds)
    return ItemFeatures(torch.from_numpy(encoder.encode(columns)), encoder)
