# SPDX-License-Identifier: Apache-2.0

"""Uses accelerators of the pool in Apache Spark programs.

:func:`wrap` adds the method :meth:`~rdds.AccRDD.map_acc` to an RDD; the
function for DataFrames is :func:`map_batches`. An :class:`Accelerator`
specifies the pool's accelerator, and how to convert Python objects to bytes.
Executors need ``fpgapool[spark]``, and to compute without the pool
``fpgapool[emulator]``.
"""

from fpgapool.spark.accelerator import Accelerator
from fpgapool.spark.codecs import ArrayCodec
from fpgapool.spark.codecs import BytesCodec
from fpgapool.spark.codecs import Codec
from fpgapool.spark.dataframes import map_batches
from fpgapool.spark.rdds import AccRDD
from fpgapool.spark.rdds import wrap

__all__ = [
    "AccRDD",
    "Accelerator",
    "ArrayCodec",
    "BytesCodec",
    "Codec",
    "map_batches",
    "wrap",
]
