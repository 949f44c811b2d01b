# SPDX-License-Identifier: Apache-2.0

"""Arrays through accelerators, computed by this machine without a pool."""

from __future__ import annotations

import collections.abc
import hashlib
import inspect
import sys
import typing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from fpgapool import client
from fpgapool.client import arrays
from fpgapool.client.doors import asking
from fpgapool.client.transfers import transfer

FRAMES = np.random.default_rng(7).normal(size=(6, 4, 16)).astype("c8")
CPU: dict[str, typing.Any] = {
    "front_door": "/nonexistent",
    "fallback": "cpu",
}


def test_a_block_is_its_array() -> None:
    block = client.Block(FRAMES)
    found = client.run_array("fft", block, **CPU)
    assert (found == client.run_array("fft", FRAMES, **CPU)).all()


def _refusal(
    function: collections.abc.Callable[..., object],
    *arguments: object,
    **named: object,
) -> str:
    with pytest.raises(client.InvalidRequest) as caught:
        function(*arguments, **CPU, **named)
    assert caught.value.code == "INVALID_INPUT"
    return caught.value.message


@pytest.mark.parametrize(
    "frames",
    [
        FRAMES,
        FRAMES[0, 0],
        FRAMES[:, :, ::-1],
        FRAMES[::2, 1:3],
        FRAMES.T,
        np.asfortranarray(FRAMES),
        np.broadcast_to(FRAMES[0, 0], (3, 16)),
        FRAMES[:, :0],
        FRAMES[:0],
    ],
)
def test_frames_of_any_layout_are_transformed(frames: np.ndarray) -> None:
    before = frames.copy()
    for found in (
        client.run_array("fft", frames, **CPU),
        arrays.fft(frames, **CPU),
    ):
        assert found.dtype == np.complex64
        assert found.shape == frames.shape
        assert np.allclose(found, np.fft.fft(frames), atol=1e-4)
        found[...] = 0
    assert np.array_equal(frames, before)


@settings(max_examples=20)
@given(
    shape=st.lists(st.integers(0, 3), max_size=3),
    samples=st.integers(1, 9),
)
def test_all_shapes(shape: list[int], samples: int) -> None:
    frames = np.ones((*shape, samples), np.complex64)
    found = client.run_array("fft", frames, norm="forward", **CPU)
    expected = np.fft.fft(frames, norm="forward")
    assert found.shape == frames.shape
    assert np.allclose(found, expected, atol=1e-5)


def test_parameters_have_names_or_a_mapping() -> None:
    found = [
        client.run_array("fft", FRAMES, inverse=np.bool_(True), **CPU),
        client.run_array(
            "fft", FRAMES, params={"inverse": True}, frame_samples=16, **CPU
        ),
        arrays.fft(FRAMES, inverse=True, **CPU),
    ]
    for each in found:
        assert np.allclose(each, np.fft.ifft(FRAMES), atol=1e-5)


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        (FRAMES.astype(complex), "takes arrays of complex64, not of complex1"),
        (FRAMES.real, "not of float32; convert=True converts them"),
        (FRAMES.astype(">c8"), "not of >c8"),
        ([[1, 2], [3, 4]], "not of int64"),
        (["12", "34"], "not of str64"),
        (np.array([None, 1]), "not of object"),
        (np.ma.masked_array(FRAMES), "masked elements are not"),
        ([[1], [1, 2]], "the data is not an array"),
        (np.complex64(1), r"takes arrays of shape (..., frame_samples), not"),
    ],
)
def test_what_is_no_array_of_frames(frames: object, text: str) -> None:
    assert text in _refusal(client.run_array, "fft", frames)


def test_frames_of_another_length() -> None:
    message = _refusal(client.run_array, "fft", FRAMES, frame_samples=8)
    assert message == "fft takes arrays of shape (..., 8), not (6, 4, 16)"


@pytest.mark.parametrize(
    "frames",
    [
        FRAMES.astype(complex),
        FRAMES.astype(">c8"),
        FRAMES.real,
        FRAMES.real.astype("f2"),
        np.array([1.0, np.nan, np.inf, 2.0]),
        np.arange(4),
        [True, False],
    ],
)
def test_numbers_are_converted_if_that_is_asked_for(frames: object) -> None:
    found = arrays.fft(frames, convert=True, **CPU)
    with np.errstate(all="ignore"):
        expected = np.fft.fft(np.asarray(frames, np.complex64))
    assert found.dtype == np.complex64
    assert np.allclose(found, expected, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("value", [1e300, -1e300j, "1", None, b"1"])
def test_numbers_that_would_become_others(value: object) -> None:
    message = _refusal(client.run_array, "fft", [value], convert=True)
    assert "which cannot represent all values" in message


@pytest.mark.parametrize("value", [256, -1, 2**63, 1.0, 1j, np.nan, "7"])
def test_numbers_that_are_no_pixels(value: object) -> None:
    frame = np.full((480, 640), value)
    message = _refusal(arrays.sobel, frame, convert=True)
    assert "which cannot represent all values" in message


def test_edges() -> None:
    frames = np.zeros((2, 480, 640), np.int64)
    frames[1, :, 320:] = 255
    edges = arrays.sobel(frames, convert=True, **CPU)
    assert edges.dtype == np.uint8
    assert edges.shape == frames.shape
    assert not edges[0].any()
    assert set(np.flatnonzero(edges[1, 1])) == {319, 320}
    message = _refusal(arrays.sobel, edges.reshape(2, 640, 480))
    assert message.endswith("(..., 480, 640), not (2, 640, 480)")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distances(dtype: str) -> None:
    series = np.arange(12).reshape(3, 4).astype(dtype)
    found = arrays.dtw(series[0], series, window_samples=0, **CPU)
    assert found.dtype == np.float64
    expected = np.sqrt(((series - series[0]) ** 2).sum(axis=1))
    assert np.allclose(found, expected)
    one = arrays.dtw(series[0], series[1], **CPU)
    assert one.shape == ()
    assert arrays.dtw(series[:0], series[:0], **CPU).shape == (0,)


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (np.ones(4), np.ones(5), "requires series of equal length"),
        (np.ones(1), np.ones(5), "requires series of equal length"),
        (np.ones(4), np.ones(4, "f4"), "requires series of the same type"),
        (np.ones((2, 4)), np.ones((3, 4)), "cannot pair these arrays"),
        (np.ones(4, int), np.ones(4, int), "takes arrays of float32, not"),
        (np.float64(1), np.float64(1), "requires series of equal length"),
        (np.ma.ones(4), np.ones(4), "masked elements are not"),
    ],
)
def test_what_are_no_pairs(first: object, second: object, text: str) -> None:
    assert text in _refusal(arrays.dtw, first, second)


def test_bytes_come_back_as_bytes_or_as_many_as_there_are() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    found = client.run_array("copy", pixels, **CPU)
    assert np.array_equal(found, pixels)
    found = client.run_array("sha", pixels[:, ::-1], **CPU)
    expected = hashlib.sha256(pixels[:, ::-1].tobytes()).digest()
    assert found.tobytes() == expected
    assert found.shape == (32,)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "frame_sample",
            "run_array() got an unexpected keyword argument 'frame_sample'; "
            "did you mean frame_samples? the parameters of fft are: "
            "frame_samples, inverse, norm",
        ),
        (
            "prioritty",
            "run_array() got an unexpected keyword argument 'prioritty'; did"
            " you mean priority?",
        ),
    ],
)
def test_misspelt_names(name: str, text: str) -> None:
    with pytest.raises(TypeError) as caught:
        client.run_array("fft", FRAMES, **{name: 1}, **CPU)
    assert str(caught.value).startswith(text)


def test_a_parameter_that_is_given_twice() -> None:
    with pytest.raises(TypeError, match="'norm' as a keyword and in params"):
        client.run_array("fft", FRAMES, norm="ortho", params={"norm": "x"})


def test_wrong_parameters() -> None:
    for named in ({"norm": "north"}, {"frame_samples": "16"}):
        with pytest.raises(client.InvalidParams):
            client.run_array("fft", FRAMES, **named, **CPU)


def test_accelerators_that_this_machine_does_not_have() -> None:
    with pytest.raises(client.FrontDoorUnavailable):
        client.run_array("none", FRAMES, **CPU)
    with pytest.raises(client.FrontDoorUnavailable):
        client.run_array("fft", FRAMES, front_door="/nonexistent")


def test_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ModuleNotFoundError, match="numpy"):
        client.run_array("fft", [1], **CPU)


@pytest.fixture
def profile(monkeypatch: pytest.MonkeyPatch) -> dict[str, typing.Any]:
    """Give the profile of the pool's accelerator, to change."""
    found: dict[str, typing.Any] = {"params_schema": {}}

    def ask(
        requests: object, **arguments: object
    ) -> list[dict[str, typing.Any]]:
        return [{"profile": found}]

    monkeypatch.setattr(asking, "ask", ask)
    return found


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> bytearray:
    """Give the output of the accelerator, to change."""
    found = bytearray()
    monkeypatch.setattr(
        transfer, "run_buffer", lambda *_, **named: (found, named)
    )
    return found


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, "arrays is missing"),
        (
            {"arrays": {"input": {"dtype": "int8"}}},
            r"arrays\.output: is missing",
        ),
        ({"arrays": 3}, "must be an object"),
    ],
)
def test_profiles_that_state_no_arrays(
    profile: dict[str, typing.Any], schema: object, text: str
) -> None:
    profile["params_schema"] = schema
    with pytest.raises(client.InvalidRequest, match=text) as caught:
        client.run_array("other", FRAMES)
    assert caught.value.code == "INVALID_REQUEST"
    assert caught.value.message.endswith("; use run_buffer()")


def test_one_result_for_many_items(
    profile: dict[str, typing.Any], output: bytearray
) -> None:
    profile["params_schema"] = {
        "properties": {"rows": {"default": 4}, "features": {}},
        "arrays": {
            "input": {"dtype": "float32", "shape": ["features + 1"]},
            "output": {
                "dtype": "float64",
                "shape": ["features"],
                "per": "rows",
            },
        },
    }
    rows = np.ones((9, 3), np.float32)
    expected = np.arange(6.0).reshape(3, 2)
    output += expected.tobytes()
    found = client.run_array("other", rows, features=2)
    assert np.array_equal(found, expected)
    for wrong in (rows.reshape(3, 3, 3), rows[0]):
        with pytest.raises(client.InvalidRequest, match="one result per 4"):
            client.run_array("other", wrong, features=2)
    # No array determines a sum.
    with pytest.raises(client.InvalidParams, match="'features' is missing"):
        client.run_array("other", rows)


def test_output_that_is_not_what_the_profile_states(
    profile: dict[str, typing.Any], output: bytearray
) -> None:
    items = {"dtype": "float32"}
    profile["params_schema"] = {"arrays": {"input": items, "output": items}}
    output += bytes(11)
    with pytest.raises(client.FpgapoolError, match="returned 11 bytes") as is_:
        client.run_array("other", np.ones(3, np.float32))
    assert is_.value.code == "SIZE_MISMATCH"


def test_help_shows_names_types_and_defaults() -> None:
    session = inspect.signature(client.acc_open).parameters
    for function in (
        *(client.run_file, client.run_stream, client.run_buffer),
        *(client.run_array, client.map, client.submit),
        *(arrays.fft, arrays.dtw, arrays.sobel),
    ):
        shown = inspect.signature(function).parameters
        assert "options" not in shown
        for name, parameter in session.items():
            if name not in ("accelerator", "size_bytes"):
                assert shown[name] == parameter, (function, name)


@pytest.mark.parametrize("axis", [-1, 0, 1, -3])
@pytest.mark.parametrize("n", [None, 1, 5, 40])
def test_a_transform_along_any_axis(axis: int, n: int | None) -> None:
    for frames in (FRAMES, FRAMES.real.astype("f8"), FRAMES.real > 0):
        found = arrays.fft(frames, axis=axis, n=n, **CPU)
        wanted = np.fft.fft(frames, axis=axis, n=n)
        assert found.shape == wanted.shape
        assert found.dtype == np.complex64
        assert np.allclose(found, wanted, atol=1e-4)


def test_transforms_that_make_no_sense() -> None:
    assert "no axis 3" in _refusal(arrays.fft, FRAMES, axis=3)
    assert "no axis -1" in _refusal(arrays.fft, 1.0)
    assert "at least 1: 0" in _refusal(arrays.fft, FRAMES, n=0)
    assert "convert=True" in _refusal(arrays.fft, FRAMES.astype("c16"))


class _OnlyDlpack:
    """An array of another library, here or on a card."""

    def __init__(self, array: np.ndarray, device: tuple[int, int]) -> None:
        self._array = array
        self._device = device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, **options: typing.Any) -> object:
        if self._device[0] != 1:
            raise BufferError("cannot export a tensor of a card")
        return self._array.__dlpack__(**options)


def test_arrays_with_only_dlpack() -> None:
    here = _OnlyDlpack(FRAMES, (1, 0))
    assert (
        arrays.fft(here, **CPU)  # type: ignore[arg-type]
        == arrays.fft(FRAMES, **CPU)
    ).all()
    card = _OnlyDlpack(FRAMES, (2, 0))
    for function in (arrays.fft, arrays.sobel):
        text = _refusal(function, card)
        assert "_OnlyDlpack is not in this machine's memory" in text
