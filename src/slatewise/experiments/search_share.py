"""How the two likelihoods fare when less and less of the log is search.

For every share a world of its own fills a window of log with that share of searches, the rest by
the simulator's policy; both models learn from it, and their greedy slates are judged by the exact
click probability of everybody who is there the next day. Nobody is shown them.
"""

from collections.abc import Sequence

import numpy as np

from slatewise.experiments.days import retrain
from slatewise.experiments.online import OnlineConfig
from slatewise.experiments.platform import Platform
from slatewise.experiments.serving import ModelPolicy
from slatewise.experiments.storing import Row
from slatewise.experiments.study import Bench
from slatewise.strategies.greedy import Greedy


def judge_share(
    config: OnlineConfig, seed: int, share: float, variants: Sequence[str], bench: Bench
) -> list[Row]:
    """Return a row per variant, in the form of `shown` (see `outcomes`)."""
    world = config.simulated(seed).model_copy(update={"search_share": share})
    platform = Platform(config, world, days=1, arms=1, folder=bench.scratch)
    platform.warm_up()
    dataset = platform.log.dataset(day=0)
    market, users = platform.market, platform.population.users
    who = platform.population.present(day=0)
    rows = []
    for number, variant in enumerate(variants):
        bench.progress(f"seed {seed}, search share {share:g}", number, len(variants))
        policy = ModelPolicy(retrain(config, {}, variant, dataset, seed=seed), Greedy())
        rng = np.random.default_rng(seed)
        slates = policy.recommend(users.observed(who), market.config.max_slate, rng)
        rows.append(
            {
                "seed": seed,
                "arm": variant,
                "search_share": share,
                "users": who,
                "expected": market.click_probability(users, slates, who).round(6),
            }
        )
    return rows
