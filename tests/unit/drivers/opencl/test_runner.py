# SPDX-License-Identifier: Apache-2.0

"""What runs kernels: building, memory, lanes and errors, on PoCL."""

import json

import numpy
import pytest

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.drivers.opencl.contents import manifest
from tests.harness import pocl
from tests.unit.accelerators import runs
from tests.unit.drivers.opencl import sessions

SOURCE = b"""
kernel void scale(global const float *input, global float *output,
                  const float gain, local float *group, const ulong length)
{
    const size_t i = get_global_id(0);

    group[get_local_id(0)] = gain;
    if (i < length)
        output[i] = input[i] * group[get_local_id(0)];
}

kernel void nothing(global uchar *output)
{
}

kernel void faulty(global uint *report, const uint fault, const uint lacking)
{
    report[0] = fault;
    report[1] = lacking;
}
"""


def documents(kernel, *arguments, **variant):
    """Make a manifest of one kernel."""
    step = {
        "kernel": kernel,
        "global": ["blocks"],
        "local": [8],
        "arguments": list(arguments),
    }
    return manifest.parse(
        json.dumps(
            {
                "format_version": 1,
                "name": "test",
                "params": {
                    "gain": {"type": "float", "default": 2},
                    "fault": {"type": "uint", "default": 0},
                },
                "variants": [
                    {
                        "block_bytes": 4,
                        "process": {"output_bytes": "bytes", "steps": [step]},
                        **variant,
                    }
                ],
            }
        ).encode()
    )


SCALE = documents(
    "scale",
    *("input", "output", {"float": "gain"}, {"local": 32}),
    {"ulong": "blocks"},
)
FAULTY = documents(
    "faulty",
    *("report", {"uint": "fault"}, {"uint": "fault + 4 * blocks + 4"}),
    faults={"1": "it is wrong"},
)


def numbers(count):
    return numpy.arange(count, dtype="<f4").tobytes()


@pytest.fixture
def build(runner, device):
    """Build the kernels above for a manifest."""

    def make(document):
        binary = pocl.binary(device, SOURCE)
        return runner.programs.Program(device, document, binary)

    return make


def test_numbers_and_local_memory_reach_a_kernel(runner, build):
    program = build(SCALE)
    kernel = runner.Runner(program, {"gain": 0.5}, 1000)
    # Not a whole group of work items.
    found = runs.run(kernel, numbers(100), [30], 4)
    assert found == (numpy.arange(100, dtype="<f4") / 2).tobytes()
    assert kernel.state() == b""


@pytest.mark.parametrize("binary", [b"no binary", b""])
def test_what_is_no_binary(runner, device, binary):
    with pytest.raises(base.DriverError) as caught:
        runner.programs.Program(device, SCALE, binary)
    assert caught.value.code == "KERNEL_BUILD_FAILED"
    assert len(caught.value.message) <= 2000


@pytest.mark.parametrize(
    ("document", "what"),
    [
        (documents("missing", "input"), "no kernel 'missing'"),
        (
            documents("scale", "input", "output"),
            "'scale' has 5 arguments, not 2",
        ),
    ],
)
def test_a_manifest_of_another_source(build, document, what):
    with pytest.raises(manifest.InvalidManifest, match=what):
        build(document)


@pytest.mark.security
@pytest.mark.parametrize("index", range(5))
@pytest.mark.parametrize(
    "other",
    [
        *("output", {"uint": 1}, {"ulong": 4096}, {"float": "gain"}),
        *({"local": 8}, {"buffer": "rows"}),
    ],
    ids=str,
)
def test_an_argument_of_another_type(build, index, other):
    # A number that a runtime takes for an address would end the process.
    arguments = [
        *("input", "output", {"float": "gain"}, {"local": 32}),
        {"ulong": "blocks"},
    ]
    kinds = ["buffer", "buffer", "float", "local", "ulong"]
    kind = "buffer" if other == "output" else next(iter(other))
    arguments[index] = other
    document = documents(
        "scale", *arguments, buffers={"rows": {"bytes": 4096}}
    )
    if kind == kinds[index]:
        build(document)
        return
    with pytest.raises(manifest.InvalidManifest) as caught:
        build(document)
    said = caught.value.message
    assert f"arguments[{index}]: kernel 'scale' expects" in said


def test_memory_that_a_device_does_not_have(runner, build):
    document = documents(
        "nothing", "output", buffers={"rows": {"bytes": 1 << 32}}
    )
    program = build(document)
    with pytest.raises(base.DriverError) as caught:
        runner.Runner(program, {}, 1000)
    assert caught.value.code == "DEVICE_OUT_OF_MEMORY"


def test_a_shorter_piece_that_needs_more_memory(runner, build):
    document = documents(
        "nothing", "output", buffers={"rows": {"bytes": "4000 - bytes"}}
    )
    program = build(document)
    kernel = runner.Runner(program, {}, 1000)
    with pytest.raises(manifest.InvalidManifest, match="more memory"):
        runs.process(kernel, numbers(8))


def test_faults_and_shorter_output(runner, build):
    program = build(FAULTY)
    kernel = runner.Runner(program, {}, 1000)
    # It lacks 4 bytes more than there are.
    assert runs.process(kernel, numbers(8)) == b""
    for fault, message in ((1, "it is wrong"), (2, "reported fault 2")):
        kernel = runner.Runner(program, {"fault": fault}, 1000)
        with pytest.raises(accelerators.InvalidInput, match=message):
            runs.process(kernel, numbers(8))


def test_pieces_that_are_too_long_or_states_of_others(runner, build):
    program = build(SCALE)
    kernel = runner.Runner(program, {}, 30)
    with pytest.raises(ValueError, match="longer than max_input"):
        runs.process(kernel, numbers(8))
    with pytest.raises(ValueError, match="wrong length"):
        kernel.restore(b"x", 4)


def test_output_that_a_kernel_does_not_write_is_zeros(runner, device, build):
    # Others may have left their data in memory of the device.
    program = build(SCALE)
    for _ in range(3):
        kernel = runner.Runner(program, {"gain": 1}, 1 << 16)
        runs.process(kernel, b"secret00" * 8000)
    document = documents("nothing", "output")
    silent = build(document)
    kernel = runner.Runner(silent, {}, 1 << 16)
    assert not any(runs.process(kernel, numbers(1 << 14)))


def test_all_memory_is_overwritten(runner, program):
    import pyopencl

    session = next(
        each for each in sessions.SESSIONS if each.name == "aes-cbc"
    )
    data = session.input(1, 5000)
    kernel = runner.Runner(program("aes-cbc"), session.params, len(data))
    runs.process(kernel, data)
    # A part of a buffer keeps the whole of it.
    kept = [buffer.get_sub_region(0, buffer.size) for buffer in kernel._owned]
    assert len(kept) == 7

    def contents():
        queue = pyopencl.CommandQueue(program("aes-cbc").context)
        for region in kept:
            there = numpy.empty(region.size, numpy.uint8)
            pyopencl.enqueue_copy(queue, there, region)
            yield there.any()

    # All but the report of a process that reports nothing.
    assert sum(contents()) == 6
    kernel.clear()
    assert sum(contents()) == 0


@pytest.mark.parametrize("name", ["aes", "aes-cbc", "sha"])
def test_lanes_overlap_and_change_nothing(runner, program, name):
    session = next(each for each in sessions.SESSIONS if each.name == name)
    piece_bytes = 1 << 16
    data = session.input(3, 10 * piece_bytes)
    kernel = runner.Runner(program(name), session.params, piece_bytes)
    lanes = [kernel.lane(), kernel.lane()]
    room = memoryview(bytearray(piece_bytes))
    found = bytearray()
    pending = []

    def collect():
        lane, launched = pending.pop(0)
        event, count = kernel.download(lane, room, [launched])
        event.wait()
        found.extend(room[:count])

    for number, start in enumerate(range(0, len(data), piece_bytes)):
        piece = memoryview(data)[start : start + piece_bytes]
        if len(pending) == len(lanes):
            collect()
        lane = lanes[number % len(lanes)]
        uploaded = kernel.upload(lane, piece)
        launched = kernel.launch(lane, start, [uploaded])
        pending.append((lane, launched))
    while pending:
        collect()
    found += runs.finish(kernel)
    core = runs.load(name, **session.params)
    assert found == runs.run(core, data)
