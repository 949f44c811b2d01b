# SPDX-License-Identifier: Apache-2.0

"""The configured store, and the removal of orphaned files from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from collections.abc import Iterable

from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.bitstreams import base
from fpgapool.bitstreams import files
from fpgapool.common import exception
from fpgapool.conf import bitstreams as options
from fpgapool.db import api as db_api

LOG = logging.getLogger(__name__)

_SWEEP_INTERVAL_S = 3600.0


def open_store(conf: cfg.ConfigOpts) -> base.Store:
    """Return the store, without connecting to it or creating it.

    :raises ConfigurationError: if its options are invalid.
    """
    if conf.bitstreams.store == options.GLANCE:
        # Imported here: pools with a directory do not need these libraries.
        from fpgapool.bitstreams import glance
        from fpgapool.clients import glance as glance_client

        return glance.GlanceStore(
            glance_client.Glance(conf), conf.bitstreams.pool_name
        )
    return files.FileStore(conf.bitstreams.store_dir)


def sweep(
    store: base.Store,
    bitstreams: Callable[[], Iterable[db_api.BitstreamRecord]],
    orphan_age_s: float,
) -> int:
    """Remove files without a bitstream, which failed uploads left behind.

    :param bitstreams: returns all bitstreams; called after the store was
        listed, so that it includes the bitstream of every listed file.
    :param orphan_age_s: age in seconds up to which files are kept, because
        their uploads may still be in progress.
    """
    old = [one for one in store.files() if one.age_s > orphan_age_s]
    known = {one.location for one in bitstreams()} if old else set()
    removed = 0
    for found in old:
        if found.location not in known:
            LOG.info(
                "Removing file %s, which belongs to no bitstream",
                found.location,
            )
            store.delete(found.location)
            removed += 1
    return removed


class Sweeper:
    """Sweeps the store at intervals."""

    def __init__(
        self,
        store: base.Store,
        database: db_api.Database,
        orphan_age_s: float,
    ) -> None:
        self._store = store
        self._database = database
        self._orphan_age_s = orphan_age_s
        self._due_s = 0.0
        self._lock = threading.Lock()

    def maybe(self) -> None:
        """Sweep if the interval has passed; only log failures."""
        with self._lock:
            now = time.monotonic()
            if now < self._due_s:
                return
            self._due_s = now + _SWEEP_INTERVAL_S
        try:
            sweep(self._store, self._database.bitstreams, self._orphan_age_s)
        except exception.FpgapoolException as error:
            LOG.warning("Cannot clean up the bitstream store: %s", error)
