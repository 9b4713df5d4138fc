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
give the same bits. The loop over items and nodes is `kernels.loops.choices`, that over
whole answers `kernels.loops.answers`.

Shapes: k items of a slate, C parameters of an item, Q nodes.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
QUADRATURE: Final = _NODES, _WEIGHTS / _WEIGHTS.sum()
"""[Q] nodes and weights of integrals over a standard normal variable."""
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
    from slatewise.model.kernels.loops import choices  # noqa: PLC0415 (numba takes time to load)

    found = ChoiceSlopes(np.empty(len(means)), np.empty(len(means)))
    chosen = -1 if clicked is None else clicked
    choices.choice_slopes(means, variances, no_click, chosen, *QUADRATURE, *found)
    return found


def filtered(
    means: Doubles, variances: Doubles, gradients: Doubles, slopes: ChoiceSlopes
) -> tuple[Doubles, Doubles]:
    """Return the means and variances [k, C] of parameters after a choice.

    `gradients` [k, C] are those of the utility of each item by its parameters.
    """
    moved = means + variances * gradients * slopes.first[:, None]
    kept = 1.0 + variances * np.square(gradients) * slopes.second[:, None]
    return moved, variances * np.maximum(kept, LEAST)
