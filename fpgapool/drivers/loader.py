# SPDX-License-Identifier: Apache-2.0

"""Finds drivers by name, or by path in processes that must start fast."""

from __future__ import annotations

import collections.abc
import pkgutil
import typing

from fpgapool.drivers import base
from fpgapool.vocabulary import codes

NAMESPACE = "fpgapool.drivers"


def driver_path(name: str) -> str:
    """Return the path of a driver's class.

    :param name: its name in the entry point group ``fpgapool.drivers``.
    :returns: ``module:Class``, for :func:`load_driver_path`.
    :raises base.DriverError: ``DRIVER_UNKNOWN``, listing the known names.
    """
    import stevedore

    manager: stevedore.ExtensionManager[typing.Any]
    manager = stevedore.ExtensionManager(NAMESPACE, invoke_on_load=False)
    paths = {
        extension.name: extension.entry_point_target for extension in manager
    }
    if name not in paths:
        raise base.DriverError(
            codes.DRIVER_UNKNOWN,
            f"unknown driver {name!r};"
            f" known drivers: {', '.join(sorted(paths))}",
        )
    return paths[name]


def load_driver_path(
    path: str, settings: collections.abc.Mapping[str, typing.Any]
) -> base.Driver:
    """Instantiate the driver at a path; see :func:`load_driver_class`.

    :raises base.DriverError: also ``INVALID_SETTINGS``.
    """
    return load_driver_class(path)(settings)


def load_driver_class(path: str) -> type[base.Driver]:
    """Import a driver without instantiating it.

    :raises base.DriverError: ``DRIVER_UNKNOWN`` if there is no such class or
        it is not a driver.
    """
    try:
        driver_class = pkgutil.resolve_name(path)
    except (ImportError, AttributeError, ValueError) as exc:
        raise base.DriverError(
            codes.DRIVER_UNKNOWN, f"cannot load driver {path!r}: {exc}"
        ) from exc
    if not (
        isinstance(driver_class, type)
        and issubclass(driver_class, base.Driver)
    ):
        raise base.DriverError(
            codes.DRIVER_UNKNOWN, f"{path!r} is not a driver"
        )
    return driver_class
