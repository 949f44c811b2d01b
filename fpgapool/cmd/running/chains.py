# SPDX-License-Identifier: Apache-2.0

"""Chains in ``fpgapool-run``: ``gzip + aes``."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Sequence
from typing import Any

from fpgapool.cmd.running import arguments as command_line
from fpgapool.cmd.running import params as parameters

_REPEATED = ("param", "param_json", "param_file")
# Options that only one stage can mean, and their values if they are omitted.
_CIPHERS_OWN = ("key_file", "iv", "iv_file", "direction")


def prepare(arguments: argparse.Namespace, source: str) -> parameters.Prepared:
    """Collect the parameters of all stages, by the stage's number.

    :param source: path of the input, or ``-``.
    :raises command_line.UsageError: if a parameter does not say to which of
        the stages it belongs, or as :func:`.params.prepare`.
    :raises OSError: if a file cannot be read.
    """
    stages: Sequence[str] = arguments.stages
    ciphers = [
        number
        for number, name in enumerate(stages, 1)
        if parameters.is_cipher(name)
    ]
    found: dict[str, dict[str, Any]] = {}
    new_iv = None
    for number, name in enumerate(stages, 1):
        one = copy.copy(arguments)
        one.accelerator = name
        for option in _REPEATED:
            setattr(one, option, _of_stage(arguments, option, number))
        if [number] != ciphers:
            for option in _CIPHERS_OWN:
                setattr(one, option, None)
        prepared = parameters.prepare(one, source)
        found[str(number)] = prepared.params
        new_iv = new_iv or prepared.new_iv
    if len(ciphers) != 1:
        for option in _CIPHERS_OWN:
            if getattr(arguments, option) is not None:
                raise command_line.UsageError(
                    "the options of aes and aes-cbc need exactly one such"
                    " stage; otherwise use --param-file STAGE:key=FILE and"
                    " --param STAGE:iv=HEX"
                )
    return parameters.Prepared(found, new_iv)


def _of_stage(
    arguments: argparse.Namespace, option: str, number: int
) -> list[str]:
    """Return the values that belong to a stage, without its name."""
    stages: Sequence[str] = arguments.stages
    name = stages[number - 1]
    own = []
    for item in getattr(arguments, option):
        stage, separator, rest = item.partition(":")
        if not separator or "=" in stage:
            # The message omits the text: it may be a mistyped key.
            raise command_line.UsageError(
                f"--{option.replace('_', '-')} requires STAGE:NAME=VALUE in a"
                " chain, such as gzip:level=3"
            )
        if stage not in stages and stage not in map(
            str, range(1, len(stages) + 1)
        ):
            raise command_line.UsageError(
                f"{stage!r} is no stage of {arguments.accelerator}"
            )
        if stage in (str(number), name):
            own.append(rest)
    return own
