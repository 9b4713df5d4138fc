"""The pass over slates itself: utilities, log-sums and gradients of one interaction a program.

Shapes: SB cells of a piece of a slate; DP and PP columns, which are D dimensions and P features,
filled up to powers of two.
"""

import triton
import triton.language as tl

from slatewise.model.kernels.gpu.parts import gradient_row


@triton.jit
def _utilities(
    z, table, cells, features, feature_weights, positions, taken, start, length, first, factor,
    LAST, C: tl.constexpr, D: tl.constexpr, P: tl.constexpr, SB: tl.constexpr, DP: tl.constexpr,
    PP: tl.constexpr, DISTANCE: tl.constexpr, BIAS: tl.constexpr, EXPOSED_BIAS: tl.constexpr,
    FEATURES: tl.constexpr, POSITIONS: tl.constexpr, TAKEN: tl.constexpr,
):  # fmt: skip
    """Return items, which can be chosen, gaps or vectors, relevances and utilities, to a state."""
    position = first + tl.arange(0, SB)
    there = position < length
    item = tl.load(cells + start + position, mask=there, other=0)
    column = tl.arange(0, DP)
    inside = there[:, None] & (column < D)[None, :]
    row = item.to(tl.int64) * C
    vector = tl.load(table + row[:, None] + column[None, :], mask=inside, other=0.0)
    if DISTANCE:
        along = tl.where(inside, z[None, :] - vector, 0.0)
        relevance = -tl.sqrt(tl.sum(along * along, 1))
    else:
        along = vector
        relevance = tl.sum(vector * z[None, :], 1)
    utility = relevance
    exposing = relevance
    if BIAS:
        utility += tl.load(table + row + D, mask=there, other=0.0)
        if EXPOSED_BIAS:
            exposing = utility
    if FEATURES:
        feature = tl.arange(0, PP)
        known = there[:, None] & (feature < P)[None, :]
        at = (start + position)[:, None] * P + feature[None, :]
        values = tl.load(features + at, mask=known, other=0.0).to(tl.float32)
        weight = tl.load(feature_weights + feature, mask=feature < P, other=0.0)
        utility += tl.sum(values * weight[None, :], 1)
    if POSITIONS:
        utility += factor * tl.load(positions + tl.minimum(position, LAST), mask=there, other=0.0)
    if TAKEN:
        there = there & (tl.load(taken + start + position, mask=there, other=1) == 0)
    return (
        item,
        there,
        along,
        relevance,
        tl.where(there, utility, -1e30),
        tl.where(there, exposing, -1e30),
    )


@triton.jit
def _add_gradients(
    z, item, there, along, relevance, of_utility, of_exposing, start, first, factor, copy, replica,
    features, positions, LAST, gradient, slots, num_items, of_features, of_positions,
    C: tl.constexpr, D: tl.constexpr, P: tl.constexpr, SB: tl.constexpr, DP: tl.constexpr,
    PP: tl.constexpr, DISTANCE: tl.constexpr, BIAS: tl.constexpr, EXPOSED_BIAS: tl.constexpr,
    FEATURES: tl.constexpr, POSITIONS: tl.constexpr, ITEMS: tl.constexpr, COPIES: tl.constexpr,
):  # fmt: skip
    """Add what the slopes of utilities and exposing relevances mean for everything but the state.

    Return the slope of the state, and of the factor of positions.
    """
    position = first + tl.arange(0, SB)
    column = tl.arange(0, DP)
    inside = there[:, None] & (column < D)[None, :]
    slope = of_utility + of_exposing
    if DISTANCE:
        length = tl.where(relevance < 0, relevance, -1.0)
        part = tl.where(relevance < 0, -slope / length, 0.0)
        of_vector = part[:, None] * along
        of_state = -tl.sum(of_vector, 0)
    else:
        of_vector = slope[:, None] * z[None, :]
        of_state = tl.sum(slope[:, None] * along, 0)
    if ITEMS:
        row = gradient_row(slots, item, there, num_items, copy, COPIES) * C
        tl.atomic_add(
            gradient + row[:, None] + column[None, :], of_vector, mask=inside, sem="relaxed"
        )
        if BIAS:
            of_bias = slope if EXPOSED_BIAS else of_utility
            tl.atomic_add(gradient + row + D, of_bias, mask=there, sem="relaxed")
    if FEATURES:
        feature = tl.arange(0, PP)
        known = there[:, None] & (feature < P)[None, :]
        at = (start + position)[:, None] * P + feature[None, :]
        values = tl.load(features + at, mask=known, other=0.0).to(tl.float32)
        summed = tl.sum(values * of_utility[:, None], 0)
        tl.atomic_add(of_features + replica * P + feature, summed, mask=feature < P, sem="relaxed")
    of_factor = tl.full([], 0.0, tl.float32)
    if POSITIONS:
        at = tl.minimum(position, LAST)
        added = tl.load(positions + at, mask=there, other=0.0)
        of_factor = tl.sum(added * of_utility, 0)
        to = of_positions + replica * (LAST + 1) + at
        tl.atomic_add(to, factor * of_utility, mask=there, sem="relaxed")
    return of_state, of_factor


@triton.jit
def _log_add(one, other):
    top = tl.maximum(one, other)
    return top + tl.log(tl.exp(one - top) + tl.exp(other - top))


@triton.jit
def _of_own(
    is_click, item, there, exposing, kappa, log_own, own_share, again, twice, is_candidate,
    IS_CHOICE: tl.constexpr,
):  # fmt: skip
    """Return what own items, the one clicked or all shown, are of the sum over the catalogue."""
    if IS_CHOICE:
        found = tl.where(is_click, (1.0 - tl.where(twice, again, 0.0)) * own_share, 0.0)
    else:
        also = tl.load(is_candidate + item, mask=there, other=0) != 0
        part = tl.exp(kappa * exposing - log_own)
        found = part * (1.0 - tl.where(also, again, 0.0)) * own_share
    return found


@triton.jit
def choice_kernel(
    states, table, no_click, cells, starts, lengths, clicks, weights, state_of, features,
    feature_weights, positions, factors, taken, stops, enough, lambdas, log_sums, is_candidate,
    values, within, gradient, slots, num_items, of_states, of_no_click, of_features, of_positions,
    of_factors, of_enough, of_log_sums, kappa, multiplicity, LAST,
    C: tl.constexpr, D: tl.constexpr, P: tl.constexpr, DP: tl.constexpr, PP: tl.constexpr,
    SHORT: tl.constexpr, LONG: tl.constexpr, REPLICAS: tl.constexpr, COPIES: tl.constexpr,
    DISTANCE: tl.constexpr, BIAS: tl.constexpr, FEATURES: tl.constexpr, POSITIONS: tl.constexpr,
    FACTORS: tl.constexpr, TAKEN: tl.constexpr, STOPS: tl.constexpr, EXPOSURE: tl.constexpr,
    IS_CHOICE: tl.constexpr, SAMPLED: tl.constexpr, SUMS: tl.constexpr, ITEMS: tl.constexpr,
    GRADIENT: tl.constexpr,
):  # fmt: skip
    """Work out one interaction: its value, and what it means for everything that it depends on."""
    n = tl.program_id(0)
    weight = tl.load(weights + n)
    if (weight != 0) | (not GRADIENT):
        length = tl.load(lengths + n)
        start = tl.load(starts + n)
        click = tl.load(clicks + n)
        none = tl.load(no_click + n)
        state = tl.load(state_of + n)
        column = tl.arange(0, DP)
        z = tl.load(states + state * D + column, mask=column < D, other=0.0)
        factor = 1.0
        if FACTORS:
            factor = tl.load(factors + n)
        stop = False
        rest = 0.0
        if STOPS:
            stop = tl.load(stops + n) != 0
            rest = tl.load(enough + n)
        # What is needed late is asked for early: the answer comes while the slate is read.
        everything = 0.0
        twice = False
        if EXPOSURE and SUMS:
            everything = tl.load(log_sums + state)
            if SAMPLED and IS_CHOICE:
                clicked = tl.load(cells + start + click, mask=click >= 0, other=0)
                twice = tl.load(is_candidate + clicked) != 0
        # Sums over the slate, piece by piece: of choices, of what is left behind a click, and of
        # the exposure term. The first piece is kept for slates that have no other.
        top = none
        total = tl.full([], 1.0, tl.float32)
        chosen = tl.full([], 0.0, tl.float32)
        own = tl.full([], 0.0, tl.float32)
        left_top = tl.full([], 0.0, tl.float32) + rest
        left = tl.full([], 1.0, tl.float32)
        shown_top = tl.full([], -1e30, tl.float32)
        shown = tl.full([], 0.0, tl.float32)
        doubled = tl.full([], 0.0, tl.float32)  # the part of it that candidates are, too
        if EXPOSURE and IS_CHOICE:
            shown_top = kappa * none
            shown = tl.full([], 1.0, tl.float32)
        item, there, along, relevance, utility, exposing = _utilities(
            z, table, cells, features, feature_weights, positions, taken, start, length, 0,
            factor, LAST, C, D, P, SHORT, DP, PP, DISTANCE, BIAS, IS_CHOICE, FEATURES, POSITIONS,
            TAKEN,
        )  # fmt: skip
        position = tl.arange(0, SHORT)
        higher = tl.maximum(top, tl.max(utility, 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(utility - higher), 0)
        top = higher
        chosen += tl.sum(tl.where(position == click, utility, 0.0), 0)
        own += tl.sum(tl.where(position == click, exposing, 0.0), 0)
        if STOPS:
            behind = tl.where(position == click, -1e30, utility)
            higher = tl.maximum(left_top, tl.max(behind, 0))
            left = left * tl.exp(left_top - higher) + tl.sum(tl.exp(behind - higher), 0)
            left_top = higher
        if EXPOSURE:
            higher = tl.maximum(shown_top, kappa * tl.max(exposing, 0))
            part = tl.exp(kappa * exposing - higher)
            shown = shown * tl.exp(shown_top - higher) + tl.sum(part, 0)
            if SUMS and SAMPLED and not IS_CHOICE:
                also = tl.load(is_candidate + item, mask=there, other=0) != 0
                doubled += tl.sum(tl.where(also, part, 0.0), 0)
            shown_top = higher
        for first in range(SHORT, length, LONG):
            item_, there_, _, _, further, exposed = _utilities(
                z, table, cells, features, feature_weights, positions, taken, start, length, first,
                factor, LAST, C, D, P, LONG, DP, PP, DISTANCE, BIAS, IS_CHOICE, FEATURES,
                POSITIONS, TAKEN,
            )  # fmt: skip
            at = first + tl.arange(0, LONG)
            higher = tl.maximum(top, tl.max(further, 0))
            total = total * tl.exp(top - higher) + tl.sum(tl.exp(further - higher), 0)
            top = higher
            chosen += tl.sum(tl.where(at == click, further, 0.0), 0)
            own += tl.sum(tl.where(at == click, exposed, 0.0), 0)
            if STOPS:
                others = tl.where(at == click, -1e30, further)
                higher = tl.maximum(left_top, tl.max(others, 0))
                left = left * tl.exp(left_top - higher) + tl.sum(tl.exp(others - higher), 0)
                left_top = higher
            if EXPOSURE:
                higher = tl.maximum(shown_top, kappa * tl.max(exposed, 0))
                part_ = tl.exp(kappa * exposed - higher)
                shown = shown * tl.exp(shown_top - higher) + tl.sum(part_, 0)
                if SUMS and SAMPLED and not IS_CHOICE:
                    also_ = tl.load(is_candidate + item_, mask=there_, other=0) != 0
                    doubled *= tl.exp(shown_top - higher)
                    doubled += tl.sum(tl.where(also_, part_, 0.0), 0)
                shown_top = higher
        log_total = top + tl.log(total)
        result = tl.where(click >= 0, chosen, none) - log_total
        of_none = tl.where(click >= 0, 0.0, 1.0) - tl.exp(none - log_total)
        stopping = 0.0
        log_left = left_top + tl.log(left)
        if STOPS:
            stopping = tl.where(stop, 1.0, 0.0)
            result += tl.where(stop, rest - log_left, 0.0)
            tl.store(of_enough + n, weight * stopping * (1.0 - tl.exp(rest - log_left)))
        tl.store(within + n, result)
        exposure = 0.0
        # How much an own item is of the sum over the catalogue, and a candidate among them less.
        own_share = tl.full([], 0.0, tl.float32)
        again = tl.full([], 0.0, tl.float32)
        log_own = shown_top
        log_shown = shown_top
        if EXPOSURE:
            exposure = tl.load(lambdas + n)
            log_shown = shown_top + tl.log(shown)
            result += tl.where(exposure != 0, exposure * log_shown, 0.0)
            if IS_CHOICE:
                of_none += exposure * kappa * tl.exp(kappa * none - log_shown)
            if SUMS:
                of_sum = tl.full([], 1.0, tl.float32)
                over = everything
                if SAMPLED:
                    # An own item that is a candidate too must not be counted twice: a candidate
                    # stands for `multiplicity` items, so 1 − multiplicity is added, not 1. Where
                    # the rest then vanishes in rounding (`drowned`), own items are the whole sum;
                    # else a logarithm of 0, or of less, would follow.
                    if IS_CHOICE:
                        log_own = tl.where(click >= 0, kappa * own, -1e30)
                        fraction = tl.where(twice, 1.0, 0.0)
                    else:
                        log_own = log_shown
                        fraction = doubled / shown
                    high = tl.maximum(everything, log_own)
                    alone = tl.exp(log_own - high)
                    share = (1.0 - multiplicity * fraction) * alone
                    rough = tl.exp(everything - high)
                    drowned = rough + share < alone
                    summed = tl.where(drowned, alone, rough + share)
                    over = high + tl.log(summed)
                    of_sum = tl.where(drowned, 0.0, rough / summed)
                    own_share = tl.where(drowned, 1.0, alone / summed)
                    again = tl.where(drowned, 0.0, multiplicity)
                if IS_CHOICE:
                    choice = _log_add(over, kappa * none)
                    of_none -= exposure * kappa * tl.exp(kappa * none - choice)
                    of_sum *= tl.exp(over - choice)
                    own_share *= tl.exp(over - choice)
                    over = choice
                result -= exposure * over
                if GRADIENT:
                    tl.atomic_add(of_log_sums + state, -weight * exposure * of_sum, sem="relaxed")
        tl.store(values + n, result)
        if GRADIENT:
            tl.store(of_no_click + n, weight * of_none)
            copy = n % COPIES
            replica = n % REPLICAS
            is_click = position == click
            of_utility = tl.where(is_click, 1.0, 0.0) - tl.exp(utility - log_total)
            if STOPS:
                of_utility -= stopping * tl.where(is_click, 0.0, tl.exp(utility - log_left))
            of_exposing = tl.zeros([SHORT], tl.float32)
            if EXPOSURE:
                of_exposing = tl.exp(kappa * exposing - log_shown)
                if SUMS and SAMPLED:
                    of_exposing -= _of_own(
                        is_click, item, there, exposing, kappa, log_own, own_share, again, twice,
                        is_candidate, IS_CHOICE,
                    )  # fmt: skip
                of_exposing *= weight * exposure * kappa
            of_state, of_factor = _add_gradients(
                z, item, there, along, relevance, tl.where(there, weight * of_utility, 0.0),
                tl.where(there, of_exposing, 0.0), start, 0, factor, copy, replica, features,
                positions, LAST, gradient, slots, num_items, of_features, of_positions,
                C, D, P, SHORT, DP, PP, DISTANCE, BIAS, IS_CHOICE, FEATURES, POSITIONS, ITEMS,
                COPIES,
            )  # fmt: skip
            for first in range(SHORT, length, LONG):
                item_, there_, along_, relevance_, further, exposed = _utilities(
                    z, table, cells, features, feature_weights, positions, taken, start, length,
                    first, factor, LAST, C, D, P, LONG, DP, PP, DISTANCE, BIAS, IS_CHOICE,
                    FEATURES, POSITIONS, TAKEN,
                )  # fmt: skip
                is_click_ = first + tl.arange(0, LONG) == click
                of_further = tl.where(is_click_, 1.0, 0.0) - tl.exp(further - log_total)
                if STOPS:
                    of_further -= stopping * tl.where(is_click_, 0.0, tl.exp(further - log_left))
                of_exposed = tl.zeros([LONG], tl.float32)
                if EXPOSURE:
                    of_exposed = tl.exp(kappa * exposed - log_shown)
                    if SUMS and SAMPLED:
                        of_exposed -= _of_own(
                            is_click_, item_, there_, exposed, kappa, log_own, own_share, again,
                            twice, is_candidate, IS_CHOICE,
                        )  # fmt: skip
                    of_exposed *= weight * exposure * kappa
                more, more_factor = _add_gradients(
                    z, item_, there_, along_, relevance_,
                    tl.where(there_, weight * of_further, 0.0),
                    tl.where(there_, of_exposed, 0.0), start, first, factor, copy, replica,
                    features, positions, LAST, gradient, slots, num_items, of_features,
                    of_positions, C, D, P, LONG, DP, PP, DISTANCE, BIAS, IS_CHOICE, FEATURES,
                    POSITIONS, ITEMS, COPIES,
                )  # fmt: skip
                of_state += more
                of_factor += more_factor
            tl.atomic_add(of_states + state * D + column, of_state, mask=column < D, sem="relaxed")
            if FACTORS:
                tl.store(of_factors + n, of_factor)
