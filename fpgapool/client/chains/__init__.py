# SPDX-License-Identifier: Apache-2.0

"""Chains: the output of one accelerator is the input of the next one.

``chain``
    What programs use.
``checking``
    Which accelerators can follow each other, and with which claims.
``meanwhile``
    Computes here while the slots are awaited.
``stage``
    The flow of a stage, whose data goes from worker to worker.
``cutting``
    Cuts the output of a stage into pieces for the next one.
``transfer``
    Sends the input and receives the output.
"""
