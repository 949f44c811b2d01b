# SPDX-License-Identifier: Apache-2.0

"""Show the edges in a video: python video.py VIDEO RESULT."""

import sys

from PIL import Image
from PIL import ImageOps
from PIL import ImageSequence

from fpgapool import client

# A frame of the accelerator "sobel": 8-bit grey pixels, row after row.
SIZE = 640, 480
FRAME_BYTES = 640 * 480

video_path, result_path = sys.argv[1:]
with Image.open(video_path) as video:
    durations_ms = [
        frame.info.get("duration", 40)
        for frame in ImageSequence.Iterator(video)
    ]
    with client.acc_open(
        "sobel", size_bytes=len(durations_ms) * FRAME_BYTES
    ) as session:
        pictures = []
        for frame in ImageSequence.Iterator(video):
            grey = ImageOps.pad(frame.convert("L"), SIZE)
            session.pin[:FRAME_BYTES] = grey.tobytes()
            edges = client.acc_run(session, FRAME_BYTES)
            # The output is valid until the next call, so it is copied.
            pictures.append(Image.frombytes("L", SIZE, bytes(edges)))

first, *others = pictures
first.save(
    result_path,
    save_all=True,
    append_images=others,
    duration=durations_ms,
    lossless=True,
)
print(f"{len(pictures)} frames: {result_path}")
