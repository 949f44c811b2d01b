# SPDX-License-Identifier: Apache-2.0

"""A private Horizon with the panels, installed as operators do."""

from __future__ import annotations

import pathlib
import shutil

from tests.services import openstack
from tests.services import process

VENV = openstack.ROOT / ".venv-horizon"
PANELS = openstack.ROOT / "fpgapool_dashboard"

#: How many rows a page has, so that few sessions need several.
PAGE_SIZE = 3

_SETTINGS = """\
ALLOWED_HOSTS = ["*"]
OPENSTACK_KEYSTONE_URL = "{auth_url}"
SECRET_KEY = "{password}"
API_RESULT_PAGE_SIZE = {page_size}
CACHES = {{
    "default": {{
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        # Sessions are there, too, and none may be dropped for a template.
        "OPTIONS": {{"MAX_ENTRIES": 100000}},
    }}
}}
STATIC_ROOT = "{directory}/static"
# Tests read what it complains of.
LOGGING = {{
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {{"console": {{"class": "logging.StreamHandler"}}}},
    "root": {{"handlers": ["console"], "level": "INFO"}},
}}
"""


class Horizon(process.Service):
    """The dashboard, under Django's own web server.

    It is a copy of the installed one: operators put files in there.

    :param workspace: where it lives and who cleans up after it.
    :param auth_url: where users log in.
    """

    def __init__(self, workspace: process.Keeper, auth_url: str) -> None:
        super().__init__("horizon", workspace)
        self._python = VENV / "bin" / "python"
        if not (VENV / ".installed").exists():
            raise process.ServiceError(
                f"{VENV} lacks Horizon: run 'make horizon-venv'"
            )
        self.port = workspace.port("horizon")
        self.url = f"http://{process.LOOPBACK}:{self.port}"
        self._install(auth_url)

    def _install(self, auth_url: str) -> None:
        """Do what doc/source/install/horizon.rst tells."""
        (installed,) = VENV.glob("lib/*/site-packages/openstack_dashboard")
        target = self.directory / "openstack_dashboard"
        shutil.copytree(installed, target)
        local = target / "local"
        for name in ("enabled", "local_settings.d"):
            for path in (PANELS / name).glob("_[0-9]*.py"):
                shutil.copy(path, local / name)
        (local / "local_settings.py").write_text(
            _SETTINGS.format(
                auth_url=auth_url,
                password=openstack.PASSWORD,
                page_size=PAGE_SIZE,
                directory=self.directory,
            )
        )

    def command(self) -> list[str]:
        """Return the command line."""
        return [
            *(str(self._python), "-W", "ignore", "-m", "django"),
            # It also serves the static files, without being told to debug.
            *("runserver", "--noreload", "--insecure"),
            f"{process.LOOPBACK}:{self.port}",
        ]

    def environment(self) -> dict[str, str]:
        """Return the whole environment."""
        return {
            **super().environment(),
            "HOME": str(self.directory),
            "PYTHONPATH": str(self.directory),
            "DJANGO_SETTINGS_MODULE": "openstack_dashboard.settings",
        }

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that the server listens on."""
        return (self.port,)

    def is_ready(self) -> bool:
        """Tell whether it serves; pages are compiled when they are asked."""
        return not process.port_is_free(self.port)

    def log(self) -> str:
        """Return all that it has logged."""
        return pathlib.Path(self.log_path).read_text()
