# SPDX-License-Identifier: Apache-2.0

"""What mypyc has to know of the classes that a native build compiles.

``@native.mypyc_attr(allow_interpreted_subclasses=True)`` stands before each:
then its objects can be made without ``__init__``, as those of copies are, and
classes that stay Python can inherit from it. Python ignores it.

A marked class inherits from no class that stays Python, such as ``abc.ABC``:
mypyc would give it the memory of ``isinstance`` of its base, and both would
have the same answers. So methods that subclasses have to define raise
``NotImplementedError``.
"""

import typing

if typing.TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_options):
        """Return a class as it is."""
        return lambda cls: cls
