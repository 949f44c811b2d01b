# SPDX-License-Identifier: Apache-2.0

from fpgapool import client

data = bytes(range(256)) * 4096

stages = [("gzip", len(data)), ("sha", len(data))]
with client.acc_open_set(stages, timeout_s=600) as (packing, hashing):
    packed = bytes(packing.run(data)) + bytes(packing.finish())
    hashing.run(data)
    digest = bytes(hashing.finish())
print(f"{len(packed)} bytes, {digest.hex()}")
