# SPDX-License-Identifier: Apache-2.0

"""Tell programs that log what the library does: the logger ``fpgapool``.

Lines never have tokens, secrets, parameters or data. A program that has not
imported :mod:`logging` shows no lines, so this module does not import it.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

#: Name of the logger. It has a handler that does nothing, so that lines appear
#: only if the program adds one.
NAME = "fpgapool"


def debug(text: str, *arguments: object) -> None:
    """Log how something was decided."""
    logger = _logger()
    if logger is not None:
        logger.debug(text, *arguments)


def info(text: str, *arguments: object) -> None:
    """Log what happens to a session or a group."""
    logger = _logger()
    if logger is not None:
        logger.info(text, *arguments)


def _logger() -> Any:
    logging = sys.modules.get("logging")
    return None if logging is None else _prepared(logging)


@functools.cache
def _prepared(logging: Any) -> Any:
    logging.getLogger(NAME).addHandler(logging.NullHandler())
    return logging.getLogger(f"{NAME}.client")
