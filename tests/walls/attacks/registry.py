# SPDX-License-Identifier: Apache-2.0

"""The list of attacks, and how one is carried out."""

from __future__ import annotations

import dataclasses
import errno
import typing
from collections.abc import Callable
from collections.abc import Collection

Scene: typing.TypeAlias = dict[str, typing.Any]

REFUSED, BOUNDED, GOT, BROKEN = "refused", "bounded", "got", "broken"

#: Errors by which a kernel refuses.
_REFUSALS = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS})
#: Errors of what the process cannot see, in addition.
HIDDEN = frozenset({errno.ENOENT, errno.ESRCH})


@dataclasses.dataclass(frozen=True)
class Attack:
    """One thing that is tried.

    :ivar name: unique.
    :ivar tried: what is tried, for people.
    :ivar stops: what stops it.
    :ivar expected: ``refused``, or ``bounded``, for which a refusal will do.
    :ivar landlock: the version of Landlock from which the kernel stops it; 0:
        any kernel does.
    :ivar cgroup: whether only a control group stops it.
    """

    name: str
    tried: str
    stops: str
    act: Callable[[Scene], str]
    refusals: Collection[int]
    expected: str = REFUSED
    landlock: int = 0
    cgroup: bool = False

    @property
    def allowed(self) -> tuple[str, ...]:
        """How an outcome may begin."""
        bounds = (BOUNDED,) if self.expected == BOUNDED else ()
        return (REFUSED, *bounds)


ATTACKS: dict[str, Attack] = {}


def attack(
    tried: str, stops: str, also: Collection[int] = (), **more: typing.Any
) -> Callable[[Callable[[Scene], str]], Callable[[Scene], str]]:
    """Declare a function an attack.

    It returns what it got; or raises OSError, or returns a text that begins
    with ``bounded`` or ``refused``, if it got nothing.

    :param also: error numbers that are refusals, too.
    """

    def add(act: Callable[[Scene], str]) -> Callable[[Scene], str]:
        name = act.__name__
        assert name not in ATTACKS, name
        refusals = _REFUSALS | frozenset(also)
        ATTACKS[name] = Attack(name, tried, stops, act, refusals, **more)
        return act

    return add


def outcome(name: str, scene: Scene) -> str:
    """Carry an attack out; return how it went, whatever happens."""
    it = ATTACKS[name]
    try:
        text = it.act(scene)
    except OSError as error:
        how = errno.errorcode.get(error.errno or 0, str(error))
        if error.errno in it.refusals:
            return f"{REFUSED}: {how}"
        return f"{GOT}: the call passes ({how})"
    except MemoryError:
        return f"{BOUNDED}: no memory"
    except Exception as error:
        return f"{BROKEN}: {error!r}"
    return text if text.startswith((REFUSED, BOUNDED)) else f"{GOT}: {text}"


def each(tries: dict[str, Callable[[], object]]) -> str:
    """Try several ways to the same; any that succeeds is enough.

    :raises OSError: the last one's error, if none succeeds.
    """
    got, last = [], OSError(errno.ENOSYS, "nothing to try")
    for name, act in tries.items():
        try:
            act()
        except OSError as error:
            last = error
        else:
            got.append(name)
    if not got:
        raise last
    return ", ".join(got)
