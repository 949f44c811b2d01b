# SPDX-License-Identifier: Apache-2.0

"""Guru Meditation Reports: what a running process is doing, on request."""

from __future__ import annotations

import threading
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from oslo_reports import guru_meditation_report
from oslo_reports import opts
from oslo_reports.models import with_default_views
from oslo_reports.views.text import generic

from fpgapool import version
from fpgapool.common import exception

#: Returns what a process knows of the pool, in a few numbers. It must neither
#: wait nor take locks: the process may hang.
Describe = Callable[[], Mapping[str, Any]]


class _Version:
    """The version of this package, as oslo.reports asks for it."""

    def vendor_string(self) -> str:
        return "OpenStack"

    def product_string(self) -> str:
        return "fpgapool"

    def version_string_with_package(self) -> str:
        return version.version_string()


def start(conf: cfg.ConfigOpts, describe: Describe, name: str) -> None:
    """Report from now on, whenever the process gets SIGUSR2.

    With ``[oslo_reports] file_event_handler``, a thread reports when that file
    changes, and the signal is left alone. Call this in the main thread.

    :param name: becomes a part of the report's file name.
    :raises ConfigurationError: if that file does not exist.
    """

    class Report(guru_meditation_report.TextGuruMeditation):  # type: ignore
        persistent_sections = [("Pool", lambda: _section(describe))]

    register_options(conf)
    try:
        Report.setup_autorun(_Version(), service_name=name, conf=conf)
    except OSError as error:
        raise exception.ConfigurationError(
            reason=f"[oslo_reports] file_event_handler: {error}"
        ) from error


def register_options(conf: cfg.ConfigOpts) -> None:
    """Register the group ``[oslo_reports]``; repeating it does nothing."""
    opts.set_defaults(conf)


def _section(describe: Describe) -> Any:
    try:
        found = dict(describe())
    except Exception as error:
        # The other sections are worth more than this one.
        found = {"unknown": f"{type(error).__name__}: {error}"}
    found["threads"] = {one.ident: one.name for one in threading.enumerate()}
    return with_default_views.ModelWithDefaultViews(
        found, text_view=generic.KeyValueView()
    )
