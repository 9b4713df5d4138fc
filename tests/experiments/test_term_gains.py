"""What follows from log-likelihoods that are known, with known intervals and worths."""

import numpy as np
import pytest

from slatewise.experiments.store import Row, Tables
from slatewise.experiments.study import Summary
from slatewise.experiments.term_gains import ALL, ALONE, AUTO, MODELS, TermScores, summary_of


def summary(tables: Tables) -> Summary:
    return summary_of(TermScores(tables, ["news"], same_users=False))


def drawn(values: dict[str, float], spread: float, worth: dict[str, float]) -> Tables:
    """Rows as units would leave them, of two seeds, each value with resamples around it."""
    rng = np.random.default_rng(0)
    scores: list[Row] = []
    replicates: list[Row] = []
    for seed in (0, 1):
        for name, value in values.items():
            head = {"seed": seed, "recommender": f"news/{name}", "calibrated": True}
            head |= {"metric": "log_likelihood", "world": "news"}
            for calibrated in (True, False):
                head = head | {"calibrated": calibrated}
                scores.append(head | {"source": "all sources", "value": value})
                noise = spread * rng.standard_normal(200)
                replicates.append(head | {"values": (value + noise).tolist()})
    worths: list[Row] = [
        {"seed": seed, "world": "news", "term": term, "worth": found + 0.001 * (2 * seed - 1)}
        for seed in (0, 1)
        for term, found in worth.items()
    ]
    return {"scores": scores, "replicates": replicates, "worths": worths}


def test_findings_follow_from_the_gains_and_their_intervals() -> None:
    values = dict.fromkeys(MODELS.values(), -1.0) | {"+popularity": -0.9, "+bias": -1.001}
    values |= {"+evidence": -1.2, "base rate": -1.1, "all features": -0.86, ALL: -0.85, AUTO: -0.85}
    values["popularity"] = -1.3  # the baseline
    found = summary(drawn(values, 1e-4, dict.fromkeys(ALONE, 0.05)))
    verdicts = {finding.question: finding.verdict for finding in found.findings}
    question = "Does {} help in news, where the cause is worth 0.050?"
    assert verdicts[question.format("popularity")] == "above"
    assert verdicts[question.format("bias")] == "below"
    assert verdicts[question.format("position")] == "cannot tell"
    best = "Is --auto better than the best baseline, all features, in news?"
    assert verdicts[best] == "above"
    assert verdicts["Is --auto better than all terms together in news?"] == "cannot tell"
    against = {row["baseline"]: row["value"] for row in found.tables["against"]}
    assert against == pytest.approx({"all features": 0.01, "base rate": 0.25, "popularity": 0.45})


def test_a_term_without_a_cause_is_held_against_what_it_may_cost() -> None:
    values = dict.fromkeys((*MODELS.values(), "base rate"), -1.0)
    values |= {"+position": -1.01, "+popularity": -1.001}
    worth = dict.fromkeys(ALONE, 0.0) | {"position": 0.0019, "bias": 0.002}
    found = summary(drawn(values, 1e-4, worth))
    verdicts = {finding.question: finding.verdict for finding in found.findings}
    question = "Without a cause in news, does {} cost less than 0.002 nats?"
    assert verdicts[question.format("popularity")] == "above"
    assert verdicts[question.format("position")] == "below"
    assert question.format("bias") not in verdicts
    causes = {row["model"]: row["cause"] for row in found.tables["gains"]}
    assert (causes["+bias"], causes["+position"], causes[ALL]) == (True, False, None)


def test_without_a_simulator_nobody_knows_the_causes() -> None:
    values = dict.fromkeys((*MODELS.values(), "base rate"), -1.0)
    found = summary(drawn(values, 1e-4, {}))
    questions = [finding.question for finding in found.findings]
    assert {"Does position help in news?", "Do features help in news?"} <= {*questions}
