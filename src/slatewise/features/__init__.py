"""What is known before a slate is shown: features of users and items, from the strict past only."""

from typing import TYPE_CHECKING

from slatewise.lazy import exports

if TYPE_CHECKING:
    from slatewise.features.cells import positions as positions
    from slatewise.features.co_clicks import CO_CLICKS as CO_CLICKS
    from slatewise.features.co_clicks import CoClicks as CoClicks
    from slatewise.features.half_lives import HalfLives as HalfLives
    from slatewise.features.half_lives import half_lives_of as half_lives_of
    from slatewise.features.half_lives import search_half_lives as search_half_lives
    from slatewise.features.history import HISTORY as HISTORY
    from slatewise.features.history import history_features as history_features
    from slatewise.features.history import met_features as met_features
    from slatewise.features.item_columns import read_item_columns as read_item_columns
    from slatewise.features.item_features import ItemEncoder as ItemEncoder
    from slatewise.features.past import PastFeatures as PastFeatures
    from slatewise.features.popularity import Popularity as Popularity
    from slatewise.features.popularity import PopularityConfig as PopularityConfig
    from slatewise.features.popularity_index import PopularityIndex as PopularityIndex
    from slatewise.features.popularity_state import PopularityState as PopularityState
    from slatewise.features.propensity import Propensity as Propensity
    from slatewise.features.showings import Showing as Showing
    from slatewise.features.showings import replay as replay
    from slatewise.features.user_history import UserHistory as UserHistory

__all__, __dir__, __getattr__ = exports(
    __name__,
    {
        "cells": "positions",
        "co_clicks": "CO_CLICKS CoClicks",
        "half_lives": "HalfLives half_lives_of search_half_lives",
        "history": "HISTORY history_features met_features",
        "item_columns": "read_item_columns",
        "item_features": "ItemEncoder",
        "past": "PastFeatures",
        "popularity": "Popularity PopularityConfig",
        "popularity_index": "PopularityIndex",
        "popularity_state": "PopularityState",
        "propensity": "Propensity",
        "showings": "Showing replay",
        "user_history": "UserHistory",
    },
)
