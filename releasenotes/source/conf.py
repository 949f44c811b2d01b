# SPDX-License-Identifier: Apache-2.0

"""Sphinx settings of the release notes."""

extensions = ["reno.sphinxext"]
project = "fpgapool release notes"
copyright = "the fpgapool contributors"
root_doc = "index"
html_title = project
html_theme = "furo"
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "documentation.html",
        "sidebar/scroll-end.html",
    ],
}
html_copy_source = False
templates_path = ["templates"]
