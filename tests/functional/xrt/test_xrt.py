# SPDX-License-Identifier: Apache-2.0

"""The OpenCL driver on AMD's own runtime XRT.

Its stand-in for a board computes nothing: this is about control, and errors.
"""

import json
import uuid

from fpgapool.cmd import manage
from fpgapool.drivers import loader
from tests.functional.xrt import child
from tests.functional.xrt import images
from tests.functional.xrt.conftest import outcomes

SIZE_BYTES = 1_000_000
BY_INSTANCE = "  cu: [copy_1, copy_2]\n"
ADDRESS = "0000:3b:00.1"
SHELL = uuid.UUID("0f3c2a52-6c1f-4d8e-8a4b-53ad5d8a1f00")


def codes(found):
    """Return the codes of outcomes that have one."""
    return [each["code"] for each in found if isinstance(each, dict)]


def test_open_load_run_and_free(machine):
    package = machine.package()
    found = machine.do(
        ("discover",),
        ("run", 0, 1),
        ("program", 0, package),
        ("program", 0, package),
        ("run", 0, SIZE_BYTES),
        ("scrub", 0),
        ("run", 0, 7),
        ("scrub", 0),
        # Another file, in the same process.
        ("program", 0, machine.package(images.image(own=uuid.uuid4()))),
        ("run", 0, SIZE_BYTES),
        ("scrub", 0),
        ("scrub", 0),
    )
    refused = found.pop(1)
    assert refused["code"] == "NOT_PROGRAMMED"
    assert found == [
        [[child.DEVICE, "unnamed", "u50", 1]],
        *("copy", "copy", SIZE_BYTES, None, 7, None),
        *("copy", SIZE_BYTES, None, None),
    ]


def test_two_processes_have_an_instance_each(machine):
    package = machine.package()
    processes = [
        machine.begin(
            ("program", slot, package),
            ("run", slot, SIZE_BYTES),
            ("scrub", slot),
            board=BY_INSTANCE,
        )
        for slot in (0, 1)
    ]
    for process in processes:
        assert outcomes(process) == ["copy", SIZE_BYTES, None]


#: Xclbins that a board must not get, and the codes.
WRONG = [
    (images.image(platform="xilinx_u250"), "XCLBIN_OTHER_PLATFORM"),
    (images.image()[:-100], "XCLBIN_TRUNCATED"),
    (images.image()[:400], "XCLBIN_TRUNCATED"),
    # The runtime itself would crash.
    (b"no xclbin", "INVALID_XCLBIN"),
    (images.image() + b"more", "INVALID_XCLBIN"),
    (images.without_offsets(), "KERNEL_BUILD_FAILED"),
]


def test_a_wrong_xclbin_leaves_the_slot_usable(machine):
    right = machine.package()
    steps = [("program", 0, right)]
    for payload, _ in WRONG:
        steps.append(("program", 0, machine.package(payload)))
        steps += [("program", 0, right), ("run", 0, 7), ("scrub", 0)]
    found = machine.do(*steps)
    assert codes(found) == [code for _, code in WRONG]
    sound = [each for each in found if not isinstance(each, dict)]
    assert sound == ["copy", *(["copy", 7, None] * len(WRONG))]


def test_an_xclbin_of_another_shell(machine, tmp_path):
    card = tmp_path / "pci" / ADDRESS
    card.mkdir(parents=True)
    (card / "interface_uuids").write_text(f"{SHELL.hex}\n")
    wrong = machine.package(images.image(interface=uuid.UUID(int=1)))
    right = machine.package(images.image(interface=SHELL))
    found = machine.do(
        ("shell", str(tmp_path / "pci")),
        ("program", 0, wrong),
        ("program", 0, right),
        ("run", 0, 7),
        board=f"  pci: '{ADDRESS}'\n",
    )
    assert codes(found) == ["XCLBIN_OTHER_SHELL"]
    assert found[2:] == ["copy", 7]


#: Manifests of other kernels, and the codes.
WRONG_MANIFESTS = [
    (images.manifest("vadd"), "INVALID_XCLBIN"),
    (images.manifest("copy:{copy_3}"), "INVALID_MANIFEST"),
    (images.manifest(arguments=["input", "output"]), "INVALID_MANIFEST"),
    (
        images.manifest(arguments=["input", "output", "input"]),
        "INVALID_MANIFEST",
    ),
    (
        images.manifest(arguments=[{"ulong": 1}, "output", {"ulong": 1}]),
        "INVALID_MANIFEST",
    ),
    (b"{}", "INVALID_MANIFEST"),
]


def test_a_manifest_of_another_kernel(machine):
    steps = [
        ("program", 0, machine.package(manifest=manifest))
        for manifest, _ in WRONG_MANIFESTS
    ]
    found = machine.do(
        *steps, ("program", 0, machine.package()), ("run", 0, 7)
    )
    assert codes(found) == [code for _, code in WRONG_MANIFESTS]
    assert found[-2:] == ["copy", 7]


def test_a_slot_whose_instance_the_xclbin_lacks(machine):
    found = machine.do(
        ("program", 1, machine.package()), board="  cu: [copy_1, copy_9]\n"
    )
    assert codes(found) == ["INVALID_MANIFEST"]


def test_a_board_compiles_no_source(machine):
    source = machine.package(
        b"kernel void copy(global uchar *a) {}", kind="opencl-source"
    )
    found = machine.do(("program", 0, source, "opencl-source"), ("builtin", 0))
    assert codes(found) == ["BITSTREAM_UNFIT"] * 2
    assert "has no compiler" in found[0]["message"]


def test_a_board_that_vanishes(machine):
    found = machine.do(
        ("discover",),
        ("health",),
        ("unplug",),
        ("health",),
    )
    assert found[1] == [True, ""]
    healthy, message = found[3]
    assert not healthy
    assert "no longer lists the device" in message
    # The next worker of the slot.
    found = machine.do(
        ("unplug",),
        ("program", 0, machine.package()),
        ("scrub", 0),
        ("discover",),
    )
    assert codes(found) == ["NO_SUCH_SLOT"] * 2
    assert found[3] == []


def test_a_runtime_that_cannot_begin(machine):
    for path in (machine.runtime / "lib").glob("libxrt_noop*"):
        path.unlink()
    found = machine.do(("discover",), ("program", 0, machine.package()))
    assert codes(found) == ["DEVICE_FAILED"] * 2


def test_the_check_tells_that_the_stand_in_computes_nothing(
    machine, tmp_path, monkeypatch, capfd
):
    for name, value in machine.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(
        loader,
        "driver_path",
        lambda name: "fpgapool.drivers.opencl.driver:OpenCLDriver",
    )
    conf = tmp_path / "fpgapool.conf"
    conf.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}/state\n[agent]\n"
        f"driver = opencl\n[opencl]\nboards_file = {machine.boards()}\n"
    )
    code = manage.main(
        [
            *("--config-file", str(conf), "device", "check", "-f", "json"),
            *("--file", f"copy={machine.package()}", "--size-mib", "1"),
        ]
    )
    found = json.loads(capfd.readouterr().out)
    steps = {
        step["name"]: step["outcome"] for step in found["devices"][0]["steps"]
    }
    assert steps == {
        "found": "passed",
        "reach": "passed",
        "health": "passed",
        "sensors": "absent",
        "program": "passed",
        "open": "passed",
        "self-test": "failed",
        "scrub": "passed",
    }
    assert code == 1
