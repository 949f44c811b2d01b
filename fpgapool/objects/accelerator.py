# SPDX-License-Identifier: Apache-2.0

"""The payload that describes an accelerator of the library."""

import dataclasses
from typing import Any
from typing import Self

from fpgapool.objects import base


@dataclasses.dataclass(frozen=True, kw_only=True)
class AcceleratorProfile(base.Payload):
    """The properties of an accelerator that the pool and its clients use.

    :param shapes: shapes of the slots that it fits; empty means any.
    :param projects: projects that may use it; empty means all. If it is not
        empty, ``name`` is a key, see :mod:`fpgapool.vocabulary.names`.
    :param platforms: rates and power by slot shape, see
        :mod:`fpgapool.vocabulary.platforms`; None: none are known.
    :param checkpoint: whether a session that is not stateless can continue in
        another slot when the pool takes its slot back.
    """

    name: str
    description: str = ""
    peak_bytes_per_s: float
    return_ratio: float
    stateless: bool
    shapes: tuple[str, ...] = ()
    params_schema: dict[str, Any] = dataclasses.field(default_factory=dict)
    core: str
    chunk_multiple_bytes: int = 1
    projects: tuple[str, ...] = ()
    platforms: dict[str, Any] | None = None
    checkpoint: bool = False

    @property
    def moves(self) -> bool:
        """Whether a session that loses its slot can continue in another."""
        return self.stateless or self.checkpoint

    def is_for(self, project_id: str | None) -> bool:
        return not self.projects or project_id in self.projects

    def changed(self, **members: Any) -> Self:
        """Return a copy of the profile with some members replaced."""
        return dataclasses.replace(self, **members)
