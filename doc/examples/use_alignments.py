# SPDX-License-Identifier: Apache-2.0

"""Align a protein, and some DNA."""

from fpgapool import client

(found,) = client.alignments.align("MKTAYIAKQRQ", "GGMKTAYWIAKQRQLL")
print(found.score, found.cigar, found.query_start, found.query_end)
print(found.aligned_query)
print(found.aligned_target)

(found,) = client.alignments.align(
    "ACGTTACGTAC", ["ACGTACGTAC"], matrix="dna", gap_open=0
)
print(found.score, found.cigar)
