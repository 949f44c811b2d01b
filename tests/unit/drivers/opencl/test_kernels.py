# SPDX-License-Identifier: Apache-2.0

"""The built-in kernels on PoCL: the same results as the software cores."""

import dataclasses

import numpy
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from fpgapool.accelerators import base
from fpgapool.drivers.opencl import kernels
from tests.unit.accelerators import runs
from tests.unit.drivers.opencl import sessions

LARGE_BYTES = 8 << 20
SMALL_BYTES = 1 << 16


def start(program, session, max_input_bytes):
    from fpgapool.drivers.opencl import runner

    built = program(session.name)
    made = runner.Runner(built, session.params, max_input_bytes)
    base.set_arguments(made, session.arguments)
    return made


def compared(program, session, data, cuts):
    """Compare a session whose input is cut at these multiples of a block."""
    kernel = start(program, session, max(1, len(data)))
    assert kernel.binding.block_bytes == session.unit_bytes
    found = runs.run(kernel, data, cuts, session.unit_bytes)
    kernel.clear()
    core = session.core()
    session.assert_same(found, runs.run(core, data))


def test_every_kernel_has_a_session():
    names = {session.name for session in sessions.SESSIONS}
    without = {"align", "gzip", "sw"}
    assert names == set(kernels.names())
    assert names == set(base.profile_names()) - without
    assert names == {session.name for session in sessions.LARGE}


@pytest.mark.parametrize("session", sessions.LARGE, ids=str)
def test_megabytes(program, session):
    data = session.input(1, LARGE_BYTES + session.unit_bytes // 2)
    blocks = LARGE_BYTES // session.unit_bytes
    compared(program, session, data, [1, blocks // 3, blocks - 1])


@pytest.mark.parametrize("session", sessions.SESSIONS, ids=str)
@given(
    seed=st.integers(0, 1 << 20),
    share=st.floats(0, 1),
    cuts=st.lists(st.integers(0, 40), max_size=4),
)
@settings(max_examples=20)
def test_any_size_and_cuts(program, session, seed, share, cuts):
    size_bytes = max(SMALL_BYTES, 2 * session.unit_bytes)
    data = session.input(seed, int(share * size_bytes))
    compared(program, session, data, cuts)


@pytest.mark.parametrize(
    "session",
    [each for each in sessions.SESSIONS if each.stateless],
    ids=str,
)
@given(block=st.integers(0, 1 << 36), count=st.integers(1, 40))
@settings(max_examples=10)
def test_any_offset(program, session, block, count):
    count = min(count, max(1, SMALL_BYTES // session.unit_bytes))
    data = session.input(block, count * session.unit_bytes)
    offset_bytes = block * session.unit_bytes
    kernel = start(program, session, len(data))
    found = runs.process(kernel, data, offset_bytes)
    core = session.core()
    session.assert_same(found, runs.process(core, data, offset_bytes))


@pytest.mark.parametrize(
    "session",
    [each for each in sessions.SESSIONS if not each.stateless],
    ids=str,
)
@given(blocks=st.integers(1, 200), rest=st.integers(0, 63), cut=st.data())
@settings(max_examples=20)
def test_another_device_goes_on(program, session, blocks, rest, cut):
    data = session.input(blocks, blocks * session.unit_bytes + rest)
    middle_bytes = cut.draw(st.integers(0, blocks)) * session.unit_bytes
    first = start(program, session, len(data))
    found = b""
    if middle_bytes:
        found = runs.process(first, data[:middle_bytes])
    state = first.state()
    first.clear()
    second = start(program, session, len(data))
    second.restore(state, middle_bytes)
    if middle_bytes < len(data):
        found += runs.process(second, data[middle_bytes:], middle_bytes)
    found += runs.finish(second)
    core = session.core()
    assert found == runs.run(core, data)


@pytest.mark.parametrize(
    "session",
    [each for each in sessions.SESSIONS if not each.rest],
    ids=str,
)
def test_an_incomplete_block_is_refused(program, session):
    if session.unit_bytes == 1:
        return
    data = bytes(session.unit_bytes + 1)
    messages = []
    for core in (
        start(program, session, len(data)),
        session.core(),
    ):
        with pytest.raises(base.InvalidInput) as caught:
            runs.process(core, data)
        messages.append(caught.value.message)
    assert messages[0] == messages[1]


@pytest.mark.parametrize("blocks", [0, 1, 5])
@pytest.mark.parametrize("last", [0, 17, 255])
def test_wrong_padding_is_refused(program, blocks, last):
    (session,) = (
        each
        for each in sessions.SESSIONS
        if each.name == "aes-cbc" and each.params["key"] == sessions.KEY
    )
    # Encrypted without the padding, which is then the last byte.
    core = runs.load("aes-cbc", **{**session.params, "direction": "encrypt"})
    plain = bytes(16 * blocks)[:-1] + bytes([last]) * (blocks > 0)
    data = runs.run(core, plain)[: 16 * blocks]
    kernel = start(program, session, max(1, len(data)))
    with pytest.raises(base.InvalidInput) as caught:
        runs.run(kernel, data)
    core = session.core()
    with pytest.raises(base.InvalidInput) as expected:
        runs.run(core, data)
    assert caught.value.message == expected.value.message


@pytest.mark.parametrize(
    ("position", "message"),
    [
        (0, "no record"),
        (7, "no record"),
        (8, "no record"),
        (11, "no record"),
        (12, "is damaged"),
        (100, "is damaged"),
        (-1, "is damaged"),
    ],
)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_wrong_record_is_refused(program, position, message, number):
    (session,) = (
        each
        for each in sessions.SESSIONS
        if each.params.get("missing") == [0, 6, 3]
    )
    data = bytearray(session.input(1, 2500))
    end = min(len(data), (number + 1) * session.unit_bytes)
    begin = number * session.unit_bytes
    data[begin + position if position >= 0 else end + position] ^= 0x40
    kernel = start(program, session, len(data))
    with pytest.raises(base.InvalidInput, match=message):
        runs.process(kernel, bytes(data))
    core = session.core()
    with pytest.raises(base.InvalidInput):
        runs.process(core, bytes(data))


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("aes", {"key": "00" * 17, "iv": "00" * 16}),
        ("aes-cbc", {"key": sessions.KEY, "iv": sessions.IV}),
        ("sha", {"algorithm": "sha1"}),
        ("dtw", {"length_samples": 20000}),
        ("ec", {"k": 1, "m": 4}),
        ("ec", {"k": 20, "m": 13}),
        ("ec", {"missing": [1]}),
        ("ec", {"mode": "reconstruct", "missing": [1, 1]}),
        ("ec", {"mode": "reconstruct", "missing": [6]}),
        ("ec", {"mode": "reconstruct", "missing": [0, 1, 2]}),
        ("fft", {"frame_samples": 131073}),
        ("lr", {"features": 1 << 16, "block_records": 256}),
        ("lr", {"features": 3, "labels": 129, "block_records": 256}),
        ("lr", {"features": 31, "labels": 1024, "block_records": 1}),
        ("km", {"features": 4, "centres": 1024, "block_records": 1}),
        ("km", {"features": 4}),
    ],
)
def test_parameters_that_do_not_suit(program, name, params):
    from fpgapool.drivers.opencl import runner

    with pytest.raises(base.InvalidParams) as caught:
        runner.Runner(program(name), params, 1024)
    assert caught.value.code == "INVALID_PARAMS"


@pytest.mark.parametrize("name", kernels.names())
def test_known_answers(program, name):
    from fpgapool.drivers.opencl import runner

    answers = runs.load_class(name).known_answers
    assert answers
    for answer in answers:
        if answer.params.get("direction") == "encrypt":
            continue
        built = program(name)
        kernel = runner.Runner(built, answer.params, len(answer.data))
        base.set_arguments(kernel, answer.arguments)
        found = runs.run(kernel, answer.data)
        if name == "lr":
            numpy.testing.assert_allclose(
                numpy.frombuffer(found, "<f8"),
                numpy.frombuffer(answer.output, "<f8"),
                rtol=1e-12,
            )
        else:
            assert found == answer.output


class Numbers:
    """A session of 100 records of km and lr, and its kernel."""

    def __init__(self, program, name):
        (self.session,) = (
            each
            for each in sessions.SESSIONS
            if each.params in ({"features": 32, "centres": 8}, {"features": 1})
            and each.name == name
        )
        self.data = self.session.input(1, 100 * self.session.record_bytes)
        self.kernel = start(program, self.session, len(self.data))
        self.core = self.session.core()

    def refused(self, data):
        for each in (self.core, self.kernel):
            with pytest.raises(base.InvalidInput):
                runs.process(each, data)


@pytest.mark.parametrize("name", ["lr", "km"])
def test_an_argument_must_be_there_and_suit(program, name):
    numbers = Numbers(program, name)
    (right,) = numbers.session.arguments
    for core in (numbers.kernel, numbers.core):
        for number, data in ((2, right), (1, right[4:]), (1, right + right)):
            with pytest.raises(base.InvalidArgument):
                core.set_argument(number, memoryview(data))
    expected = runs.process(numbers.core, numbers.data)
    # The wrong ones have changed nothing.
    found = runs.process(numbers.kernel, numbers.data)
    numbers.session.assert_same(found, expected)
    for core in (numbers.kernel, numbers.core):
        core.set_argument(1, memoryview(bytes(len(right))))
    zeros = runs.process(numbers.kernel, numbers.data)
    numbers.session.assert_same(
        zeros, runs.process(numbers.core, numbers.data)
    )
    assert zeros != found
    without = dataclasses.replace(numbers.session, is_argued=False)
    with pytest.raises(base.InvalidArgument, match="argument 1, the"):
        runs.process(start(program, without, 100), numbers.data[:80])


@pytest.mark.parametrize("name", ["lr", "km"])
def test_wrong_records_are_refused(program, name):
    numbers = Numbers(program, name)
    numbers.refused(numbers.data[:-1])
    if name == "lr":
        for label in (-1, 2, 0.5, numpy.nan, numpy.inf):
            wrong = numpy.frombuffer(numbers.data, "<f4").copy()
            wrong[20] = label
            numbers.refused(wrong.tobytes())


@pytest.mark.parametrize("name", ["lr", "km"])
def test_what_is_no_number_stays_none(program, name):
    numbers = Numbers(program, name)
    data = numpy.frombuffer(numbers.data, "<f4").copy()
    data[1] = numpy.nan
    found, expected = (
        numpy.isfinite(numpy.frombuffer(runs.process(each, data.tobytes())))
        for each in (numbers.kernel, numbers.core)
    )
    assert (found == expected).all()
    assert not found.all()


@pytest.mark.parametrize(
    "session",
    [each for each in sessions.SESSIONS if each.number_type is not None],
    ids=str,
)
@given(seed=st.integers(0, 1 << 20), share=st.sampled_from([0.02, 0.3, 1]))
@settings(max_examples=15)
def test_special_numbers(program, session, seed, share):
    """Infinities, what is no number, zeros, and results that are too large."""
    generator = numpy.random.default_rng(seed)
    special = [numpy.inf, -numpy.inf, numpy.nan, 0.0, -0.0, 2.0]
    frame_samples = session.params.get("frame_samples", 0)
    if frame_samples.bit_count() == 1:
        special += [3e38, -3e38]

    def changed(data):
        values = numpy.frombuffer(data, session.number_type).copy()
        chosen = generator.random(len(values)) < share
        values[chosen] = generator.choice(special, chosen.sum())
        return values

    data = changed(session.input(seed, 3 * session.unit_bytes))
    if session.name == "lr":
        data.reshape(-1, session.params["features"] + 1)[:, 0] = 1
    arguments = [changed(each).tobytes() for each in session.arguments]
    outputs = []
    for core in (start(program, session, data.nbytes), session.core()):
        base.set_arguments(core, arguments)
        outputs.append(runs.process(core, data.tobytes()))
    session.assert_same(*outputs)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["copy", "aes", "sha"])
def test_a_gigabyte(program, name):
    session = next(each for each in sessions.LARGE if each.name == name)
    data = session.input(1, LARGE_BYTES)
    kernel = start(program, session, len(data))
    core = session.core()
    for offset_bytes in range(0, 1 << 30, len(data)):
        expected = runs.process(core, data, offset_bytes)
        assert runs.process(kernel, data, offset_bytes) == expected
    assert runs.finish(kernel) == runs.finish(core)
