"""Slates made at startup and discarded, so that the first request is as fast as later ones."""

from collections.abc import Sequence

from slatewise.service.serving.items import ItemLog
from slatewise.service.serving.live import Live
from slatewise.service.serving.request import Request
from slatewise.service.serving.users import ANONYMOUS
from slatewise.service.settings import ServiceConfig
from slatewise.service.store.features import Features
from slatewise.service.store.records import Item, ItemState


class _TwoItems:
    """A store with a catalogue of two."""

    def item_seq(self) -> int:
        return 2

    def item_changes(self, since: int, until: int | None = None) -> list[Item]:
        return [Item(name, "any", ItemState.SHOWN, seq) for seq, name in enumerate("ab", start=1)]

    def item_features(self, numbers: Sequence[int]) -> dict[int, Features]:
        return {}


def warm_up(config: ServiceConfig) -> None:
    """Load what is compiled for the strategies of all arms, also where there are no items yet.

    On a new installation it has to be compiled first, which takes some fifteen seconds.
    """
    log = ItemLog()
    store = _TwoItems()
    log.read(store)
    for arm in config.arms.values():
        model = config.models[arm.model].model
        live = Live.of_prior(arm.model, model, config.source, log)
        live.apply_items(log.number, store)
        live.answer(ANONYMOUS.lookup(()), Request(k=2), arm.made, seed=0, time=1)
