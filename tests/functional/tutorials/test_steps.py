# SPDX-License-Identifier: Apache-2.0

"""What is read from a tutorial, and that a wrong one is noticed."""

from __future__ import annotations

import pytest

from tests.functional.allinone import harness
from tests.functional.tutorials import reader
from tests.functional.tutorials import steps

PAGE = """
.. code-block:: python
   :caption: one.py

   print("one", 17)

   print("two")

Run it:

.. code-block:: sh

   python one.py

.. code-block:: text

   one …
   two
"""


def test_blocks_are_steps_and_are_followed() -> None:
    file, commands = steps.steps_of(PAGE)
    assert file == steps.File("one.py", 'print("one", 17)\n\nprint("two")\n')
    assert commands == steps.Commands("python one.py\n", prints="one …\ntwo\n")
    with (
        harness.short_directory() as directory,
        reader.Reader(directory) as one,
    ):
        one.follow(file)
        one.follow(commands)
        with pytest.raises(AssertionError, match="one 17"):
            one.follow(steps.Commands(commands.text, prints="one\ntwo\n"))
        with pytest.raises(AssertionError):
            one.follow(steps.Commands("false\n"))


@pytest.mark.parametrize("language", ["text", "python"])
def test_a_block_without_a_purpose_is_an_error(language: str) -> None:
    with pytest.raises(ValueError, match="lost"):
        steps.steps_of(f".. code-block:: {language}\n\n   lost\n")
