# SPDX-License-Identifier: Apache-2.0

"""What mypyc must know about the classes that a native build compiles.

Each such class is decorated with
``@native.mypyc_attr(allow_interpreted_subclasses=True)``. It can then be
copied without ``__init__``, and interpreted classes can inherit from it. But a
copy lacks what these add, so what a pool consists of must not be of such a
class. The decorator does nothing in plain Python.

A decorated class must not inherit from an interpreted one such as ``abc.ABC``:
mypyc would share the base's ``isinstance`` cache, and checks against either
class would give the same answer. So abstract methods raise
``NotImplementedError`` instead.
"""

import typing

if typing.TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_options):
        return lambda cls: cls
