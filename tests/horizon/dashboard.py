# SPDX-License-Identifier: Apache-2.0

"""A private Horizon with the panels, installed as operators do."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

from tests.integration import beside
from tests.services import openstack
from tests.services import process

SERVICE = "horizon"
PANELS = openstack.ROOT / "fpgapool_dashboard"

#: What operators copy, in the words of the manual.
COPIED = ("enabled/_*_fpga_*.py", "local_settings.d/_1710_fpgapool.py")

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


class Horizon(beside.Part):
    """The dashboard, under Django's own web server.

    It is a copy of the installed one: operators put files in there.

    :param workspace: where it lives and who cleans up after it.
    :param auth_url: where users log in.
    """

    SERVICE = SERVICE

    def __init__(self, workspace: process.Keeper, auth_url: str) -> None:
        super().__init__(SERVICE, workspace)
        self.port = workspace.port("horizon")
        self.url = f"http://{process.LOOPBACK}:{self.port}"
        self._install(auth_url)

    def _install(self, auth_url: str) -> None:
        """Copy what doc/source/install/horizon.rst tells."""
        (installed,) = beside.environment(SERVICE).glob(
            "lib/*/site-packages/openstack_dashboard"
        )
        target = self.directory / "openstack_dashboard"
        shutil.copytree(installed, target)
        local = target / "local"
        for pattern in COPIED:
            for path in PANELS.glob(pattern):
                shutil.copy(path, local / path.parent.name)
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
        # It also serves the static files, without being told to debug.
        options = ("--noreload", "--insecure")
        address = f"{process.LOOPBACK}:{self.port}"
        return self._django("runserver", *options, address)

    def _django(self, *arguments: str) -> list[str]:
        python = (self.program("python"), "-W", "ignore")
        return [*python, "-m", "django", *arguments]

    def manage(self, *arguments: str) -> str:
        """Run a command of Django, and return what it prints.

        :raises subprocess.CalledProcessError: if it fails.
        """
        return subprocess.run(
            self._django(*arguments),
            env=self.environment(),
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    def environment(self) -> dict[str, str]:
        """Return the whole environment."""
        return {
            **super().environment(),
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
