"""One choice among the items of a slate, filtered into beliefs about their utilities.

Utilities are u_j ~ N(m_j, s_j²), independent; clicking nothing has the utility u_0, which is known.
Given the others, a choice says of u_i what one toss of a coin says:

    P(click i)      = σ(u_i − A_i)              with A_i = log(e^{u_0} + Σ_{j≠i} e^{u_j})
    P(click c ≠ i)  = e^{u_c − A_i} σ(A_i − u_i)

So u_i is filtered by a logistic likelihood in x = ±(u_i − A_i), with A_i taken for normal: its
mean and variance to the second order, with w_j = e^{m_j} / Σ_{j≠i},

    E A_i ≈ log(e^{u_0} + Σ e^{m_j}) + ½ Σ w_j (1 − w_j) s_j²,    Var A_i ≈ Σ w_j² s_j²,

and, where something else was chosen, tilted by e^{u_c − A_i}, which moves its mean by
Cov(A_i, u_c − A_i) = w_c s_c² − Var A_i. With Z(m_i) = E σ(x) the moments of the filtered u_i are
those of assumed-density filtering (Minka, 2001; Opper, 1998):

    E[u_i | choice] = m_i + s_i² (log Z)'        Var[u_i | choice] = s_i² + s_i⁴ (log Z)''

Z and its derivatives are integrals over one normal variable, by Gauss–Hermite quadrature. σ is
log-concave, hence (log Z)'' ≤ 0: a choice never makes anything less certain.

A utility that is linear in normal parameters θ with slopes g, u_i = m_i + g · (θ − μ), filters each
of them: μ + σ² g (log Z)' and σ² + σ⁴ g² (log Z)''.

Nothing is random, and no sum depends on what else is computed: the same choices in the same order
give the same bits.

Shapes: k items of a slate, C parameters of an item, Q nodes.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
LEAST: Final = 1e-3
"""The least share of its variance that one choice leaves a parameter: where a utility is far from
linear, a step of the filter could else end in certainty."""


class ChoiceSlopes(NamedTuple):
    """What a choice says of the utilities of its items."""

    first: Doubles
    """[k] (log Z)', by which means move"""
    second: Doubles
    """[k] (log Z)'', by which variances shrink"""


def choice_slopes(
    means: Doubles, variances: Doubles, no_click: float, clicked: int | None
) -> ChoiceSlopes:
    """Return the slopes of log Z of utilities with means and variances [k], given what was chosen.

    `clicked` is the index of the item chosen; None where that was to click nothing.
    """
    top = max(float(means.max(initial=no_click)), no_click)
    others = np.repeat(np.exp(means - top)[None], len(means), axis=0)  # [k, k]
    np.fill_diagonal(others, 0.0)
    # Summed without i, not taken off the whole sum: where i is nearly all of it, that is rounding.
    rest = np.maximum(np.exp(no_click - top) + others.sum(axis=1), np.finfo(np.float64).tiny)
    weights = others / rest[:, None]  # [k, k] of j among all but i
    spread = (np.square(weights) * variances).sum(axis=1)  # [k] Var A_i
    centre = top + np.log(rest) + 0.5 * (weights * (1 - weights) * variances).sum(axis=1)
    sign = np.full(len(means), -1.0)
    shift = -spread
    if clicked is not None:
        shift = shift + weights[:, clicked] * variances[clicked]
        sign[clicked], shift[clicked] = 1.0, 0.0
    middle = sign * (means - centre - shift)
    return _logistic_slopes(middle, variances + spread, sign)


def _logistic_slopes(middle: Doubles, variances: Doubles, sign: Doubles) -> ChoiceSlopes:
    """Differentiate log E σ(x) twice by the mean of ±x, with x ~ N(middle, variances): [k] each."""
    x = middle[:, None] + np.sqrt(variances)[:, None] * _NODES  # [k, Q]
    lower = np.exp(-np.abs(x))
    share = np.where(x > 0, 1.0, lower) / (1.0 + lower)  # σ(x), without overflow
    slope = lower / np.square(1.0 + lower)  # σ'(x) = σ (1 − σ)
    total = (_WEIGHTS * share).sum(axis=1)
    first = (_WEIGHTS * slope).sum(axis=1) / total
    second = (_WEIGHTS * slope * (1.0 - 2.0 * share)).sum(axis=1) / total - np.square(first)
    return ChoiceSlopes(sign * first, np.minimum(second, 0.0))


def filtered(
    means: Doubles, variances: Doubles, gradients: Doubles, slopes: ChoiceSlopes
) -> tuple[Doubles, Doubles]:
    """Return the means and variances [k, C] of parameters after a choice.

    `gradients` [k, C] are those of the utility of each item by its parameters.
    """
    moved = means + variances * gradients * slopes.first[:, None]
    kept = 1.0 + variances * np.square(gradients) * slopes.second[:, None]
    return moved, variances * np.maximum(kept, LEAST)
