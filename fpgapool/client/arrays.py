# SPDX-License-Identifier: Apache-2.0

"""Process NumPy arrays with an accelerator.

The accelerator's profile declares which arrays it takes and returns
(:mod:`fpgapool.vocabulary.arrays`). :func:`run_array` works with all
accelerators; each of the others serves one accelerator and names its
parameters. Parameters that those do not describe are the same as for
:func:`run_array`. The first call imports NumPy.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Unpack

from fpgapool.client import cancel as cancelling
from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.client import options as session_options
from fpgapool.client.doors import asking
from fpgapool.client.sessions import blocks
from fpgapool.client.sessions import software
from fpgapool.client.transfers import transfer
from fpgapool.common.channels import channel
from fpgapool.vocabulary import arrays as forms
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import names

if typing.TYPE_CHECKING:
    import numpy
    import numpy.typing

    Array: typing.TypeAlias = numpy.typing.NDArray[Any]
    ArrayLike: typing.TypeAlias = numpy.typing.ArrayLike

# Time limit for the pool to describe the accelerator if there is a fallback.
_DESCRIPTION_S = 15.0
_CPU_CODES = software.FALLBACK_CODES | {codes.TIMEOUT}


@session_options.shown
def run_array(
    accelerator: str,
    array: ArrayLike,
    *,
    convert: bool = False,
    timeout_s: float | None = None,
    **named: Any,
) -> Array:
    """Process an array with an accelerator.

    The array's last dimensions must be those that the accelerator declares.
    There may be any number of dimensions before them; the result keeps these
    if there is one result for each item. Parameters that give the length of a
    dimension, or the type of the numbers, may be omitted: the array determines
    them.
    The array may be empty, and need not be contiguous. It must not change
    during the call. If you need a report, use :func:`run_buffer`.

    :param array: the input; anything that ``numpy.asarray`` accepts, or a
        :class:`fpgapool.client.Block` of an array.
    :param convert: whether to convert numbers of a different type, if the
        accelerator's type can represent all of them; floating-point numbers
        are rounded. If False, a different type is an error.
    :param timeout_s: time limit for the whole call.
    :param named: parameters of the accelerator, by name. All other options
        are those of :func:`acc_open`; a parameter that has the name of an
        option must be passed in ``params``.
    :raises errors.InvalidRequest: with code ``INVALID_INPUT`` if the type or
        shape is wrong for the accelerator, or ``INVALID_REQUEST`` if its
        profile does not declare arrays.
    :raises TypeError: if a name is neither an option nor a parameter.
    :raises ModuleNotFoundError: if NumPy is not installed.
    :raises: as :func:`run_buffer`.
    """
    call = Call("run_array", accelerator, named, convert=convert)
    return call.run_array(array, timeout_s)


@session_options.accepted
def fft(
    frames: ArrayLike,
    *,
    n: int | None = None,
    axis: int = -1,
    inverse: bool = False,
    norm: str = "backward",
    convert: bool = False,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> numpy.typing.NDArray[numpy.complex64]:
    """Transform frames with the accelerator ``fft``, like ``numpy.fft.fft``.

    :param frames: array of ``complex64``, or of real numbers, which are
        rounded to single precision.
    :param n: length of the transform; frames are cut, or filled up with
        zeros. None means their own length.
    :param axis: the dimension that is a frame.
    :param norm: ``backward``, ``forward`` or ``ortho``, as in NumPy.
    :param convert: whether to round complex numbers of another type.
    :returns: array of ``complex64`` with the same shape, but for ``n``.
    :raises errors.InvalidRequest: with code ``INVALID_INPUT`` if there is no
        such dimension, or ``n`` is less than 1.
    :raises: as :func:`fpgapool.client.run_array`.
    """
    import numpy

    array = _as_array(numpy, frames)
    if not -array.ndim <= axis < array.ndim:
        raise _unfit(
            "fft", f"has no axis {axis} in an array of shape {array.shape}"
        )
    array = numpy.moveaxis(array, axis, -1)
    if n is not None:
        array = _resized(numpy, array, n)
    real = array.dtype.kind in "biuf"
    params = {"inverse": inverse, "norm": norm}
    call = Call("fft", "fft", {**params, **options}, convert=convert or real)
    return numpy.moveaxis(call.run_array(array, timeout_s), -1, axis)


def _resized(numpy: Any, array: Array, length: int) -> Array:
    """Cut the last dimension, or fill it up with zeros."""
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise _unfit("fft", f"n must be an integer of at least 1: {length!r}")
    array = array[..., :length]
    missing = length - array.shape[-1]
    return numpy.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])


@session_options.accepted
def dtw(
    first: ArrayLike,
    second: ArrayLike,
    *,
    window_samples: int | None = None,
    convert: bool = False,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> numpy.typing.NDArray[numpy.float64]:
    """Measure distances between series with the accelerator ``dtw``.

    The last dimension is a series; the others are broadcast, as in NumPy.

    :param first: array of ``float32`` or ``float64``.
    :param window_samples: maximum distance in time between aligned samples;
        None means no limit.
    :param convert: as in :func:`fpgapool.client.run_array`, like the rest.
    :returns: array of ``float64`` without the last dimension.
    :raises: as :func:`fpgapool.client.run_array`.
    """
    import numpy

    one, other = _as_array(numpy, first), _as_array(numpy, second)
    if not one.shape or one.shape[-1:] != other.shape[-1:]:
        raise _unfit(
            "dtw",
            "requires series of equal length, but the shapes are "
            f"{one.shape} and {other.shape}",
        )
    if one.dtype != other.dtype and not convert:
        raise _unfit(
            "dtw",
            f"requires series of the same type, not {one.dtype} and "
            f"{other.dtype}; convert=True converts them",
        )
    try:
        pairs = numpy.stack(numpy.broadcast_arrays(one, other), axis=-2)
    except ValueError as exc:
        raise _unfit("dtw", f"cannot pair these arrays: {exc}") from None
    params = (
        {} if window_samples is None else {"window_samples": window_samples}
    )
    call = Call("dtw", "dtw", {**params, **options}, convert=convert)
    return call.run_array(pairs, timeout_s)


@session_options.accepted
def sobel(
    frames: ArrayLike,
    *,
    convert: bool = False,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> numpy.typing.NDArray[numpy.uint8]:
    """Find edges in grayscale images with the accelerator ``sobel``.

    :param frames: array of ``uint8``; last dimensions: 480 rows, 640 pixels.
    :param convert: as in :func:`fpgapool.client.run_array`, like the rest.
    :returns: array of ``uint8`` with the same shape.
    :raises: as :func:`fpgapool.client.run_array`.
    """
    call = Call("sobel", "sobel", options, convert=convert)
    return call.run_array(frames, timeout_s)


class Call:
    """One call of a function with named options and parameters.

    It may process many inputs, even in several threads at once.

    :param named: options of sessions, and parameters of the accelerator.
    :raises TypeError: if a parameter is given twice.
    :raises errors.InvalidParams: if JSON cannot represent a parameter.
    """

    def __init__(
        self,
        function: str,
        accelerator: str,
        named: Mapping[str, Any],
        *,
        convert: bool = False,
    ) -> None:
        self._function = function
        self._accelerator = checks.name(accelerator, "accelerator")
        self._convert = convert
        #: Options of sessions.
        self.options = {
            name: value
            for name, value in named.items()
            if name in session_options.NAMES
        }
        self._params = checks.params(self.options.pop("params", None))
        self._named = {
            name: value
            for name, value in named.items()
            if name not in session_options.NAMES
        }
        for name in self._named:
            if name in self._params:
                raise TypeError(
                    f"{function}() got {name!r} as a keyword and in params"
                )
        self._params.update(checks.params(self._named))
        # The schema from the pool, which is the same for all inputs.
        self._schema: forms.Schema | None = None

    def check(self, timeout_s: float | None) -> None:
        """Check the named parameters against the accelerator's schema."""
        seconds = checks.seconds(timeout_s, "timeout_s")
        self._check(channel.deadline_after(seconds), None)

    def _check(
        self, deadline_s: float | None, cancel: cancelling.CancelToken | None
    ) -> None:
        if self._named:
            self._describe(deadline_s, cancel)

    def run(
        self,
        data: Any,
        timeout_s: float | None,
        cancel: cancelling.CancelToken | None = None,
    ) -> Any:
        """Run an array, or bytes."""
        deadline_s = checks.deadline(timeout_s)
        if not isinstance(data, bytes | bytearray | memoryview):
            return self._run_array(data, deadline_s, cancel)
        self._check(deadline_s, cancel)
        return self._send(data, self._params, deadline_s, cancel)

    def run_array(self, data: Any, timeout_s: float | None) -> Array:
        deadline_s = checks.deadline(timeout_s)
        return self._run_array(data, deadline_s, None)

    def _run_array(
        self,
        data: Any,
        deadline_s: float | None,
        cancel: cancelling.CancelToken | None,
    ) -> Array:
        import numpy

        array = _as_array(numpy, data)
        form = self._form(self._describe(deadline_s, cancel))
        if array.ndim < len(form.input_shape):
            raise self._wrong_shape(array, form.input_shape)
        params = {
            **form.inferred(array.dtype.name, array.shape),
            **self._params,
        }
        try:
            arrays = form.arrays(params)
        except ValueError as exc:
            raise errors.InvalidParams(f"params: {exc}") from None
        leading = self._leading(array, arrays)
        array = self._converted(numpy, array, arrays.input.dtype)
        content = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)
        output = self._send(content.data, params, deadline_s, cancel)
        return self._result(numpy, output, arrays.output, leading)

    def _send(
        self,
        data: Any,
        params: forms.Params,
        deadline_s: float | None,
        cancel: cancelling.CancelToken | None,
    ) -> bytearray:
        options = dict(self.options)
        if cancel is not None:
            options["cancel"] = cancel
        output: bytearray
        output, _ = transfer.run_buffer(
            self._accelerator,
            data,
            params=params,
            timeout_s=transfer.left_s(deadline_s),
            **options,
        )
        return output

    def _describe(
        self, deadline_s: float | None, cancel: cancelling.CancelToken | None
    ) -> forms.Schema:
        """Return the schema of the parameters; query the pool only once.

        :raises TypeError: if the schema lacks a parameter of this call.
        """
        schema = self._schema
        if schema is None:
            schema = self._ask(deadline_s, cancel)
            known = schema.get("properties", {})
            for name in self._named:
                if name not in known and not schema.get(
                    "additionalProperties", True
                ):
                    meant = (*known, *session_options.NAMES)
                    near = names.hint(name, meant) or ";"
                    raise TypeError(
                        f"{self._function}() got an unexpected keyword "
                        f"argument {name!r}{near} the parameters of "
                        f"{self._accelerator} are: "
                        f"{', '.join(known) or 'none'}"
                    )
            self._schema = schema
        return schema

    def _ask(
        self, deadline_s: float | None, cancel: cancelling.CancelToken | None
    ) -> forms.Schema:
        with_cpu = self.options.get("fallback") is not None
        limit_s = transfer.left_s(deadline_s)
        if with_cpu:
            wait_s = checks.seconds(
                self.options.get("wait_timeout_s"), "wait_timeout_s"
            )
            limit_s = min(filter(None, (_DESCRIPTION_S, limit_s, wait_s)))
        try:
            door = session_options.of_door(self.options)
            if cancel is not None:
                door["cancel"] = cancel
            (reply,) = asking.ask(
                [("accelerator", {"name": self._accelerator})],
                timeout_s=limit_s,
                **door,
            )
        except errors.FpgapoolError as exc:
            if with_cpu and exc.code in _CPU_CODES:
                return software.params_schema(self._accelerator, exc)
            raise
        profile = reply.get("profile") or {}
        schema: forms.Schema = profile.get("params_schema") or {}
        return schema

    def _form(self, schema: forms.Schema) -> forms.Form:
        try:
            return forms.Form(schema)
        except ValueError as exc:
            raise errors.invalid(
                f"the pool's profile of {self._accelerator} does not "
                f"declare arrays ({exc}); use run_buffer()"
            ) from None

    def _leading(
        self, array: Array, arrays: forms.Arrays
    ) -> tuple[int, ...] | None:
        """Check the shape.

        :returns: the result's leading dimensions; None means one of any size.
        """
        item = arrays.input.shape
        dimensions = array.ndim - len(item)
        if array.shape[dimensions:] != item:
            raise self._wrong_shape(array, item)
        leading = array.shape[:dimensions]
        if arrays.per is None:
            return None
        if arrays.per == 1:
            return leading
        if arrays.per < 1 or len(leading) != 1:
            raise _unfit(
                self._accelerator,
                f"produces one result per {arrays.per} items, so the array "
                f"must have exactly one dimension before {item}, but has "
                f"{leading}",
            )
        return (-(-leading[0] // arrays.per),)

    def _wrong_shape(
        self, array: Array, item: Sequence[int | str]
    ) -> errors.InvalidRequest:
        wanted = ", ".join(["...", *map(str, item)])
        return _unfit(
            self._accelerator,
            f"takes arrays of shape ({wanted}), not {array.shape}",
        )

    def _converted(self, numpy: Any, array: Array, name: str) -> Array:
        dtype = _dtype(numpy, name)
        if array.dtype == dtype:
            return array
        if not self._convert:
            raise _unfit(
                self._accelerator,
                f"takes arrays of {name}, not of {_name(array.dtype)}; "
                "convert=True converts them",
            )
        converted = _conversion(numpy, array, dtype)
        if converted is None:
            raise _unfit(
                self._accelerator,
                f"takes arrays of {name}, which cannot represent all values "
                f"of this array of {_name(array.dtype)}",
            )
        return converted

    def _result(
        self,
        numpy: Any,
        output: bytearray,
        items: forms.Items,
        leading: tuple[int, ...] | None,
    ) -> Array:
        dtype = _dtype(numpy, items.dtype)
        item_bytes = math.prod(items.shape) * dtype.itemsize
        if leading is None:
            leading = (len(output) // max(item_bytes, 1),)
        if math.prod(leading) * item_bytes != len(output):
            raise errors.FpgapoolError(
                codes.SIZE_MISMATCH,
                f"{self._accelerator} returned {len(output)} bytes, but its "
                f"profile declares {items.dtype} of shape "
                f"{(*leading, *items.shape)}",
            )
        array: Array = numpy.frombuffer(output, dtype)
        return array.reshape((*leading, *items.shape))


def _as_array(numpy: Any, data: Any) -> Array:
    if isinstance(data, blocks.Block):
        data = data.source
    if hasattr(data, "__dlpack__") and not _is_readable(data):
        return _of_device(numpy, data)
    if isinstance(data, numpy.ma.MaskedArray):
        raise errors.InvalidRequest(
            codes.INVALID_INPUT,
            "masked elements are not supported; fill them first",
        )
    try:
        array: Array = numpy.asarray(data)
    except (TypeError, ValueError) as exc:
        raise errors.InvalidRequest(
            codes.INVALID_INPUT, f"the data is not an array: {exc}"
        ) from None
    return array


def _is_readable(data: Any) -> bool:
    """Return whether NumPy can read an object without DLPack."""
    if hasattr(data, "__array__") or hasattr(data, "__array_interface__"):
        return True
    try:
        memoryview(data)
    except TypeError:
        return False
    return True


def _of_device(numpy: Any, data: Any) -> Array:
    """Take an array that another library has, without copying it.

    :raises errors.InvalidRequest: if it is not in this machine's memory.
    """
    try:
        array: Array = numpy.from_dlpack(data)
    except (BufferError, RuntimeError, TypeError, ValueError) as exc:
        raise errors.InvalidRequest(
            codes.INVALID_INPUT,
            f"the {type(data).__name__} is not in this machine's memory, or "
            f"has a type that NumPy lacks; copy it there first, such as with "
            f".cpu() or .get() ({exc})",
        ) from None
    return array


def _dtype(numpy: Any, name: str) -> Any:
    return numpy.dtype(name).newbyteorder("<")


def _name(dtype: Any) -> str:
    """Return a type's name, with its byte order if that is not native."""
    return str(dtype.name if dtype.isnative else dtype)


def _conversion(numpy: Any, array: Array, dtype: Any) -> Array | None:
    """Convert numbers.

    :returns: None if the type cannot represent a number even after rounding.
    """
    integers = array.dtype.kind in "biu" and dtype.kind in "iu"
    if not integers and not numpy.can_cast(
        array.dtype, dtype, casting="same_kind"
    ):
        return None
    with numpy.errstate(all="ignore"):
        converted: Array = array.astype(dtype)
    if integers:
        same = numpy.array_equal(array, converted)
    else:
        same = numpy.array_equal(
            numpy.isfinite(array), numpy.isfinite(converted)
        )
    return converted if same else None


def _unfit(accelerator: str, message: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(
        codes.INVALID_INPUT, f"{accelerator} {message}"
    )
