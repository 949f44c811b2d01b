# SPDX-License-Identifier: Apache-2.0

"""Sphinx settings."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

extensions = [
    "error_codes",
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

autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "none"
