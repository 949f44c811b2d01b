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
html_title = project
# Furo has a dark mode, "on this page" and a menu for phones, and loads nothing
# from elsewhere.  openstackdocstheme has no dark mode, brings Bootstrap and
# jQuery, and shows the links of openstack.org, to which fpgapool does not
# belong.
html_theme = "furo"
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "release-notes.html",
        "sidebar/scroll-end.html",
    ],
}
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["cards.css", "pictures.css", "tables.css"]
html_js_files = [("search.js", {"defer": "defer"})]
templates_path = ["templates"]

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

    (_HERE / "reference/api").mkdir(exist_ok=True)
    for name, page in api_reference.reference(routes.ROUTES).items():
        path = _HERE / f"reference/{name}.rst"
        # What is as it was is not built again.
        if not path.exists() or path.read_text() != page:
            path.write_text(page)


def setup(app: Any) -> None:
    """Write the pages that are made from the code."""
    app.connect("builder-inited", _write_reference)
