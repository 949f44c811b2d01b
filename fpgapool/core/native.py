# SPDX-License-Identifier: Apache-2.0

"""What mypyc has to know of the classes that a native build compiles.

``@native.mypyc_attr(allow_interpreted_subclasses=True)`` stands before each:
then its objects can be made without ``__init__``, as those of copies are, and
classes that stay Python can inherit from it. Python ignores it.

None inherits from such a class, or from ``abc.ABC``: mypyc gives it the
memory of ``isinstance`` of its base, so that both have the same answers.
"""

import typing

if typing.TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_options):
        """Return a class as it is."""
        return lambda cls: cls
