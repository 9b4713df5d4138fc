"""Tables that the site makes from the code: settings with their texts, options with their help.

In a page:

    ```{settings} slatewise.training:TrainingConfig
    ```

    ```{options} train
    ```
"""

import importlib
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from pydantic import BaseModel
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command

import slatewise.service.settings  # noqa: F401 (not after autodoc, which rewrites annotations of pydantic)
from slatewise.cli import app as commands
from slatewise.model.config import ModelConfig


def settings(path: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and text of the settings that a configuration declares itself."""
    module, _, name = path.partition(":")
    config: type[BaseModel] = getattr(importlib.import_module(module), name)
    fields = config.settings() if config is ModelConfig else config.model_fields
    own = [name for name in fields if config is ModelConfig or name in config.__annotations__]
    for field in own:
        yield field, shown(fields[field].get_default()), fields[field].description or ""


def options(command: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and help of the options of a command."""
    for part in get_command(commands).commands[command].params:  # type: ignore[attr-defined]
        if part.opts[0].startswith("--"):
            yield part.opts[0], shown(part.default), part.help.replace("\\[", "[")


def shown(value: Any) -> str:
    """Return a default as the tables write it."""
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_defaults=True)
    if value is None or value is False or value in ((), {}):
        return "–"
    if isinstance(value, dict):
        return ", ".join(map(_entry, value, value.values()))
    if isinstance(value, tuple):
        return ", ".join(map(shown, value))
    if isinstance(value, int | float) and value is not True:
        return f"{value:g}" if abs(value) < 10_000 else f"{value:,}"
    return str(value).replace("True", "true")


def _entry(name: str, value: Any) -> str:
    """Return an entry of a dictionary; of a section by name only the name."""
    return name if isinstance(value, BaseModel) else f"{name} = {shown(value)}"


class Table(SphinxDirective):
    """A table of three columns, read anew whenever the site is built."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table as nodes."""
        self.env.note_reread()
        rows = {"settings": settings, "options": options}[self.name](self.arguments[0])
        lines = [f"| {self.name[:-1]} | default | meaning |", "|---|---|---|"]
        for name, default, text in rows:
            meaning = " ".join(text.split()).replace("|", "\\|")
            lines.append(f"| `{name}` | {default} | {meaning} |")
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("settings", Table)
    app.add_directive("options", Table)
    return {"parallel_read_safe": True}
