"""What is known before a slate is shown: features of users and items, from the strict past only."""

from typing import TYPE_CHECKING

from slatewise.lazy import exports

if TYPE_CHECKING:
    from slatewise.features.cells import cells_of_users as cells_of_users
    from slatewise.features.cells import positions as positions
    from slatewise.features.half_lives import HalfLives as HalfLives
    from slatewise.features.half_lives import search_half_lives as search_half_lives
    from slatewise.features.history import HISTORY as HISTORY
    from slatewise.features.history import history_features as history_features
    from slatewise.features.history import met_features as met_features
    from slatewise.features.item_columns import read_item_columns as read_item_columns
    from slatewise.features.item_features import ItemEncoder as ItemEncoder
    from slatewise.features.popularity import Popularity as Popularity
    from slatewise.features.popularity import PopularityConfig as PopularityConfig
    from slatewise.features.popularity_index import PopularityIndex as PopularityIndex
    from slatewise.features.popularity_state import PopularityState as PopularityState
    from slatewise.features.propensity import Propensity as Propensity
    from slatewise.features.propensity import PropensityState as PropensityState
    from slatewise.features.showings import Showing as Showing
    from slatewise.features.showings import replay as replay
    from slatewise.features.user_history import UserHistory as UserHistory

_HOMES = {
    "HISTORY": "slatewise.features.history",
    "HalfLives": "slatewise.features.half_lives",
    "ItemEncoder": "slatewise.features.item_features",
    "Popularity": "slatewise.features.popularity",
    "PopularityConfig": "slatewise.features.popularity",
    "PopularityIndex": "slatewise.features.popularity_index",
    "PopularityState": "slatewise.features.popularity_state",
    "Propensity": "slatewise.features.propensity",
    "PropensityState": "slatewise.features.propensity",
    "Showing": "slatewise.features.showings",
    "cells_of_users": "slatewise.features.cells",
    "UserHistory": "slatewise.features.user_history",
    "history_features": "slatewise.features.history",
    "met_features": "slatewise.features.history",
    "positions": "slatewise.features.cells",
    "read_item_columns": "slatewise.features.item_columns",
    "search_half_lives": "slatewise.features.half_lives",
    "replay": "slatewise.features.showings",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605

__getattr__ = exports(__name__, _HOMES)
