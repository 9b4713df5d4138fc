"""How the pages of this folder become a site: `make docs` builds it into build/site."""

import os
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

from slatewise.version import __version__

sys.path.insert(0, str(Path(__file__).parent))  # for reference.py

project = "slatewise"
author = copyright = "slatewise developers"
release = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "reference"]
html_theme = "furo"
html_title = "slatewise"
html_static_path: list[str] = []
html_show_sphinx = False
html_copy_source = False
html_show_search_summary = False  # it would fetch pages, which browsers refuse from a folder
exclude_patterns = ["_build"]

# Links such as model.md#predictions lead to headings, as they do where Markdown is shown alone.
myst_heading_anchors = 4
myst_links_external_new_tab = False
# Pygments knows neither CSV nor what curl answers.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]

# Notebooks are run when the site is built, once for each change.
nb_execution_mode = os.environ.get("SLATEWISE_NOTEBOOKS", "cache")
nb_execution_cache_path = "../build/notebooks"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
# Figures with their script inside: the site works from a folder, without a network.
os.environ.setdefault("PLOTLY_RENDERER", "notebook")

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_class_signature = "separated"
napoleon_google_docstring = True


def leave_mathjax_out(app: Sphinx, error: Exception | None) -> None:
    """Delete what Plotly's figures would load from the network: none of ours has formulas."""
    script = re.compile(r'<script[^>]*src="https://[^"]*mathjax[^"]*"[^>]*></script>')
    for page in Path(app.outdir).glob("notebooks/*.html"):
        page.write_text(script.sub("", page.read_text(encoding="utf-8")), encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Ask to be called when the site is built."""
    app.connect("build-finished", leave_mathjax_out)
