# SPDX-License-Identifier: Apache-2.0

"""Distributions of sizes as given on the command line."""

from __future__ import annotations

import math
import typing
from collections.abc import Callable
from collections.abc import Mapping

from fpgapool.sim import errors
from fpgapool.sim.inputs import distributions


class Family(typing.NamedTuple):
    """Distributions that differ only in their parameters."""

    make: Callable[..., distributions.SizeDistribution]
    defaults: Mapping[str, float]


FAMILIES = {
    "exponential": Family(
        distributions.Exponential, {"s0_bytes": 20e6, "mean_bytes": 400e6}
    ),
    "power-law": Family(
        distributions.BoundedPowerLaw,
        {"s0_bytes": 20e6, "smax_bytes": 10e9, "alpha": 1.1},
    ),
    "lognormal": Family(
        distributions.Lognormal,
        {
            "median_bytes": 100e6,
            "sigma": 1.5,
            "min_bytes": 0.0,
            "max_bytes": math.inf,
        },
    ),
}


def describe(name: str) -> str:
    """Return a family and its defaults as text for :func:`parse`."""
    return f"{name}:" + ",".join(
        f"{parameter}={value:g}"
        for parameter, value in FAMILIES[name].defaults.items()
    )


def parse(text: str, option: str) -> distributions.SizeDistribution:
    """Make a distribution.

    :param text: for example ``exponential:s0_bytes=20e6,mean_bytes=400e6``;
        missing parameters take their defaults.
    :raises errors.InputError: if there is no such distribution.
    """
    name, _, rest = text.partition(":")
    family = FAMILIES.get(name)
    if family is None:
        raise errors.InputError(
            option,
            "",
            f"unknown distribution {name!r}; known distributions: "
            f"{', '.join(FAMILIES)}",
        )
    given: dict[str, float] = {}
    for part in filter(None, rest.split(",")):
        parameter, _, number = part.partition("=")
        place = f"{name}:{parameter}"
        if parameter not in family.defaults:
            raise errors.InputError(
                option,
                place,
                "unknown parameter; known parameters: "
                f"{', '.join(family.defaults)}",
            )
        if parameter in given:
            raise errors.InputError(option, place, "is a duplicate")
        try:
            given[parameter] = float(number)
        except ValueError:
            raise errors.InputError(
                option, place, f"{number!r} is not a number"
            ) from None
    try:
        return family.make(**{**family.defaults, **given})
    except ValueError as error:
        raise errors.InputError(option, name, str(error)) from error
