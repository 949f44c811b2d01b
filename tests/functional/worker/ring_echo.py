# SPDX-License-Identifier: Apache-2.0

"""Returns the records of a channel; ``python -m ... FD FD FD FD``."""

import sys

from fpgapool.common.channels import rings


def main() -> None:
    channel = rings.Channel.attach([int(fd) for fd in sys.argv[1:]])
    while True:
        record = channel.get()
        if record is None:
            channel.wait()
            continue
        while not channel.put(record.view()):
            channel.wait(room_bytes=len(record))
        last = not record
        channel.free()
        if last:
            return


if __name__ == "__main__":
    main()
