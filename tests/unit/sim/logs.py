# SPDX-License-Identifier: Apache-2.0

"""Small made-up logs of batch systems.

Each has a job of 10 s on two processors, one of 2.5 s that arrives 3.5 s
later, and perhaps one that did not run.
"""

import json

#: Job 3 did not run; the line with status 2 is a part of job 1.
SWF = """\
; Version: 2.2
1 100 5 10 2 -1 -1 2 60 -1 1 7 4 9 1 1 -1 -1
1 100 5 4 2 -1 -1 2 60 -1 2 7 4 9 1 1 -1 -1

2 103.5 0 2.5 -1 -1 -1 1 60 -1 1 8 -1 9 1 1 -1 -1 ; late
3 104 0 -1 -1 -1 -1 4 60 -1 5 -1 -1 -1 1 1 -1 -1
"""
SACCT = """\
JobID|User|Account|JobName|Submit|Start|Elapsed|NCPUS
10|ann|bio|fold|2026-03-01T10:00:00|2026-03-01T10:00:05|00:00:10|2
10.batch|||batch|2026-03-01T10:00:05|2026-03-01T10:00:05|00:00:10|2
11_4|bob||fold|2026-03-01T10:00:03.5|2026-03-01T10:00:03.5|00:02.5|1
12|bob||x|2026-03-01T10:00:04|Unknown|00:00:00|4
"""
BATSIM = json.dumps(
    {
        "nb_res": 8,
        "jobs": [
            {
                "id": "a!1",
                "subtime": 100,
                "res": 2,
                "profile": "d",
                "user": "ann",
            },
            {"id": "a!2", "subtime": 103.5, "profile": "p", "walltime": 2.5},
        ],
        "profiles": {
            "d": {"type": "delay", "delay": 10},
            "p": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},
        },
    }
)
#: All of them, by format.
SAMPLES = {"swf": SWF, "sacct": SACCT, "batsim": BATSIM}
