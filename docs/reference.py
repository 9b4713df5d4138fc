"""Tables that the site makes from the code: settings with their texts, options with their help.

In a page:

    ```{settings} slatewise.training:TrainingConfig
    ```

    ```{options} train
    ```

    ```{problems}
    ```

    ```{requests}
    ```
"""

import importlib
from collections.abc import Iterator
from typing import Any, ClassVar

from docutils import nodes
from pydantic import BaseModel
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command

from slatewise.cli import app as commands
from slatewise.data.report import Problem
from slatewise.model.config import ModelConfig
from slatewise.service.http.app import application  # before autodoc rewrites pydantic's annotations


def settings(path: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and text of the settings that a configuration declares itself."""
    module, _, name = path.partition(":")
    config: type[BaseModel] = getattr(importlib.import_module(module), name)
    fields = config.settings() if config is ModelConfig else config.model_fields
    own = [name for name in fields if config is ModelConfig or name in config.__annotations__]
    for field in own:
        yield f"`{field}`", shown(fields[field].get_default()), fields[field].description or ""


def options(command: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and help of the options of a command."""
    for part in get_command(commands).commands[command].params:  # type: ignore[attr-defined]
        if part.opts[0].startswith("--"):
            default = None if part.default is False else part.default
            yield f"`{part.opts[0]}`", shown(default), part.help.replace("\\[", "[")


def problems() -> Iterator[tuple[str, str, str]]:
    """Yield what can be wrong with a log, where, and what is done about it."""
    for problem in Problem:
        yield problem.what, f"`{problem.column}`" if problem.column else "–", problem.repair


def requests() -> Iterator[tuple[str, str, str]]:
    """Yield the requests that the service answers, the role that each needs, and what it does."""
    for route in application(lambda metrics: None).routes:
        for method in sorted(route.methods):
            needs = route.needs.name.lower() if hasattr(route, "needs") else "–"
            what = route.summary or route.endpoint.__doc__.splitlines()[0]
            yield f"`{method} {route.path_format}`", needs, what.rstrip(".")


def shown(value: Any) -> str:
    """Return a default as the tables write it."""
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_defaults=True)
    if value is None or value in ((), {}):
        return "–"
    if isinstance(value, dict):
        return ", ".join(map(_entry, value, value.values()))
    if isinstance(value, tuple):
        return ", ".join(map(shown, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}" if abs(value) < 10_000 else f"{value:,}"
    return str(value)


def _entry(name: str, value: Any) -> str:
    """Return an entry of a dictionary; of a section by name only the name."""
    if isinstance(value, BaseModel):
        return name
    return f"{name} = {{{shown(value)}}}" if isinstance(value, dict) else f"{name} = {shown(value)}"


class Table(SphinxDirective):
    """A table of three columns, read anew whenever the site is built."""

    optional_arguments = 1
    heads: ClassVar = {
        "settings": (settings, "setting", "default", "meaning"),
        "options": (options, "option", "default", "meaning"),
        "problems": (problems, "problem", "field", "repair"),
        "requests": (requests, "request", "role", "what"),
    }

    def run(self) -> list[nodes.Node]:
        """Return the table as nodes."""
        self.env.note_reread()
        rows, *head = self.heads[self.name]
        cells = [head, ["---"] * 3, *rows(*self.arguments)]
        lines = [
            " | ".join(" ".join(one.split()).replace("|", "\\|") for one in row) for row in cells
        ]
        return self.parse_text_to_nodes("\n".join(f"| {line} |" for line in lines))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    for name in Table.heads:
        app.add_directive(name, Table)
    return {"parallel_read_safe": True}
