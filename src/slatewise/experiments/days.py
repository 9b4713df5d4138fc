"""The online loop: serve by day, record, retrain at night.

Users are in one arm for ever. Search answers everybody alike; recommendation slates come from the
arm's model and strategy. Arms with the same model share it: it learns from the log of all arms.
"""

from collections.abc import Container, Mapping, Sequence

from slatewise.data.dataset import SlateDataset
from slatewise.experiments.model_policy import ModelPolicy
from slatewise.experiments.online import Arm, OnlineConfig
from slatewise.experiments.outcomes import Outcomes
from slatewise.experiments.platform import Platform
from slatewise.experiments.store import Tables
from slatewise.experiments.study import Bench
from slatewise.experiments.variants import variant_config
from slatewise.model.fitted import SlateModel
from slatewise.slates.strategies import named_strategy
from slatewise.training import fit


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
    platform.warm_up()
    for day in range(days):
        bench.progress(f"seed {seed}, day {day + 1}", day, days)
        dataset = platform.log.dataset(day)  # of the past alone: the day is yet to come
        for variant in dict.fromkeys(arm.variant for arm in arms):
            models[variant] = retrain(config, models, variant, dataset, seed=1_000 * seed + day)
        policies = [
            ModelPolicy(models[arm.variant], named_strategy(arm.strategy), dataset) for arm in arms
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
) -> SlateModel:
    """Fit a variant to a night's dataset, from where it was the night before if there was one."""
    return fit(
        dataset,
        variant_config(variant, config.model),
        config.nightly if variant in models else config.training,
        seed=seed,
        device=config.device,
        start=models.get(variant),
    )
