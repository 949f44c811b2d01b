#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Numbers of a figure, as a CSV file."""

from __future__ import annotations

import csv
import io
import pathlib
from collections.abc import Iterable
from collections.abc import Sequence

from fpgapool.sim import files


def write(
    path: pathlib.Path,
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
) -> None:
    """Write a table.

    :param path: of the file.
    :param header: names of the columns, with units.
    :param rows: a value for each column.
    :raises fpgapool.sim.errors.InputError: if it cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    files.write(path, text.getvalue().encode())
