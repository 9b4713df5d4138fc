"""The tables of the store, as queries see them; `migrations` makes them.

Columns of JSON are text in both dialects: PostgreSQL's JSONB would refuse some texts (a NUL in a
request, say), and one refused record would hold up all that are written with it. Cast them
(`item_ids::jsonb`) to look inside.
"""

from typing import Any

from sqlalchemy import BigInteger, Column, LargeBinary, MetaData, Row, Select, Table, Text

AnyRow = Row[*tuple[Any, ...]]
AnySelect = Select[*tuple[Any, ...]]

METADATA = MetaData()

META = Table("meta", METADATA, Column("name", Text), Column("value", Text))
"""The version of the schema, the salt of `erased`, the last version of each model, changed arms,
and what tokens took on each host."""

COUNTERS = Table("counters", METADATA, Column("name", Text), Column("value", BigInteger))
"""The last numbers given: `log` to slates and outcomes, `items` to changes of items."""

SLATES = Table(
    "slates",
    METADATA,
    Column("seq", BigInteger),
    Column("slate_id", Text),
    Column("user_id", Text),
    Column("time", BigInteger),
    Column("source", Text),
    Column("item_ids", Text),
    Column("serving", Text),
)
"""Slates that were shown; item_ids and serving are JSON. Rows are added, never changed."""

OUTCOMES = Table(
    "outcomes",
    METADATA,
    Column("seq", BigInteger),
    Column("slate", BigInteger),
    Column("key", Text),
    Column("seen", BigInteger),
    Column("clicked", Text),
    Column("time", BigInteger),
    Column("user_id", Text),
    Column("shown", BigInteger),
)
"""What became of slates (`slate` is the slate's seq). Its user and time (`shown`) stand here too:
the newest visits of a user are found in an index, however many slates she left unanswered.
"""

ITEMS = Table(
    "items",
    METADATA,
    Column("item_id", Text),
    Column("item_group", Text),
    Column("state", Text),
    Column("seq", BigInteger),
    Column("described", BigInteger),
)
"""The items as they are now; `described` is the number of the change that set their features."""

ITEM_CHANGES = Table(
    "item_changes",
    METADATA,
    Column("seq", BigInteger),
    Column("item_id", Text),
    Column("item_group", Text),
    Column("state", Text),
    Column("described", BigInteger),
)
"""Every state an item was ever in, in the order of the changes."""

ITEM_FEATURES = Table(
    "item_features", METADATA, Column("seq", BigInteger), Column("features", Text)
)
"""Features by the number of the change that set them, as JSON. An item that is hidden and shown
again has two changes and its features, which may be long, once."""

ERASED = Table("erased", METADATA, Column("digest", Text), Column("time", BigInteger))
"""Salted digests of people and slates that were erased, and when."""

PAST_SLATES = Table(
    "past_slates",
    METADATA,
    Column("seq", BigInteger),
    Column("user_id", Text),
    Column("arm", Text),
    Column("time", BigInteger),
    Column("answered", BigInteger),
    Column("clicked", BigInteger),
)
"""What experiments count of slates of our own that have left the store; an anonymous user is the
slate's id, and `answered` and `clicked` are 0 or 1."""

MODEL_FILES = Table(
    "model_files",
    METADATA,
    Column("digest", Text),
    Column("start", BigInteger),
    Column("content", LargeBinary),
)
"""Files of models in parts, by the SHA-256 of the whole file."""

MODEL_VERSIONS = Table(
    "model_versions",
    METADATA,
    Column("model", Text),
    Column("version", BigInteger),
    Column("files", Text),
    Column("beginning", LargeBinary),
)
"""Versions that hosts share: digests of their files by name, as JSON, and the state in which the
first host began to serve them."""

MODEL_SERVING = Table(
    "model_serving",
    METADATA,
    Column("model", Text),
    Column("serial", BigInteger),
    Column("about", Text),
)
"""Which version of a model serves on all hosts, as JSON; promotions are numbered."""
