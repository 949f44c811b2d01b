# SPDX-License-Identifier: Apache-2.0

"""Sphinx settings."""

import pathlib
import sys
import warnings
from typing import Any

_HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(_HERE))

extensions = [
    "error_codes",
    "oslo_config.sphinxconfiggen",
    "oslo_config.sphinxext",
    "oslo_policy.sphinxext",
    "sphinx.ext.autodoc",
]
project = "fpgapool"
copyright = "the fpgapool contributors"
root_doc = "index"
html_theme = "alabaster"
html_theme_options = {
    "description": "A pool of FPGAs for OpenStack clouds",
    "page_width": "70em",
    "body_max_width": "52em",
    # Where 'make docs' puts them.
    "extra_nav_links": {"Release notes": "../releasenotes/index.html"},
}
html_sidebars = {
    "**": ["about.html", "searchfield.html", "navigation.html"],
}
html_static_path = ["static"]
html_css_files = ["tables.css"]

# Writes static/fpgapool.conf.sample.
config_generator_config_file = [
    (
        str(_HERE.parents[1] / "etc/fpgapool/fpgapool-config-generator.conf"),
        "static/fpgapool",
    )
]

autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "none"


def _write_reference(_app: Any) -> None:
    # Of oslo.messaging, which the routes import.
    warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
    import api_reference

    from fpgapool.api import routes

    page = api_reference.reference(routes.ROUTES)
    (_HERE / "reference/api-ref.rst").write_text(page)


def setup(app: Any) -> None:
    """Write the pages that are made from the code."""
    app.connect("builder-inited", _write_reference)
