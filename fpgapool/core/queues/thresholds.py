# SPDX-License-Identifier: Apache-2.0

"""Thresholds between the priority queues of workload-aware strategies."""

import dataclasses
import math
from collections import abc

import numpy as np
import numpy.typing as npt

# Far more than the rounding errors of shares.
_ROUNDING = 1e-9


def hybrid_factors(
    q: npt.ArrayLike, k1: npt.ArrayLike, k2: npt.ArrayLike, queues: int
) -> npt.NDArray[np.float64]:
    """Return the hybrid thresholds as multiples of the first one, unchecked.

    :param q: q, k1 and k2 may be arrays that broadcast together; each element
        gives one row.
    :returns: queues − 1 factors along the last axis.
    """
    ratio, first, last = (
        np.asarray(values, dtype=np.float64)[..., np.newaxis]
        for values in (q, k1, k2)
    )
    k = np.arange(1, queues, dtype=np.float64)
    step = (ratio ** (last - 1) - ratio**first) / (last - first)
    is_linear = (first < k) & (k <= last)
    return np.where(
        is_linear, ratio**first + (k - first) * step, ratio ** (k - 1)
    )


def hybrid_thresholds(
    E_bytes: float, q: float, k1: int, k2: int, queues: int
) -> tuple[float, ...]:
    """Return the upper bounds of all priority queues except the last.

    They grow geometrically up to queue k1, linearly up to k2 and geometrically
    again after that. With k1 = 1 and k2 = 2, all growth is geometric.

    :raises ValueError: if the thresholds would not be finite and increasing.
    """
    if not 0 < E_bytes < math.inf:
        raise ValueError(f"E_bytes must be positive and finite, not {E_bytes}")
    if not 1 < q < math.inf:
        raise ValueError(f"q must be above 1 and finite, not {q}")
    if not 1 <= k1 < k2:
        raise ValueError(
            f"k1 and k2 must satisfy 1 <= k1 < k2; got k1={k1}, k2={k2}"
        )
    if queues < 1:
        raise ValueError(f"queues must be at least 1, not {queues}")
    with np.errstate(over="ignore", invalid="ignore"):
        factors = hybrid_factors(q, k1, k2, queues)
        thresholds = tuple((E_bytes * factors).tolist())
    if not all(map(math.isfinite, thresholds)):
        raise ValueError(
            f"the thresholds are not finite with q={q} and "
            f"queues={queues}; lower one of them"
        )
    check_thresholds(thresholds)
    return thresholds


def learnt_thresholds(
    sizes: abc.Sequence[float], queues: int
) -> tuple[float, ...]:
    """Upper bounds of all priority queues except the last, from sizes.

    Each queue gets the same share of the sizes, where half of a share counts
    their number and half their bytes. So large sizes are told apart, too, even
    if they are few. Bounds may be equal; the queue between them stays empty.

    :param sizes: at least one, all positive and finite. Sizes times k give
        bounds times k.
    """
    ordered = np.sort(np.asarray(sizes, dtype=np.float64))
    of_bytes = np.cumsum(ordered / ordered[-1])
    of_number = np.arange(1, len(ordered) + 1)
    shares = of_bytes / of_bytes[-1] + of_number / len(ordered)
    wanted = 2.0 * np.arange(1, queues) / queues
    # Rounding must not decide between neighbours.
    places = np.searchsorted(shares, wanted - _ROUNDING)
    return tuple(ordered[places].tolist())


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    """Thresholds that do not change.

    :raises ValueError: if they are not positive, finite and increasing.
    """

    thresholds_bytes: tuple[float, ...]

    def __post_init__(self) -> None:
        check_thresholds(self.thresholds_bytes)


def check_thresholds(thresholds_bytes: tuple[float, ...]) -> None:
    """Check that thresholds separate queues.

    :raises ValueError: if they are not positive, finite and increasing.
    """
    lower_bytes = 0.0
    for threshold_bytes in thresholds_bytes:
        if not lower_bytes < threshold_bytes < math.inf:
            raise ValueError(
                "thresholds_bytes must be positive, finite and increasing, "
                f"but {threshold_bytes} follows {lower_bytes}"
            )
        lower_bytes = threshold_bytes
