"""A jaxpr as text that is the same for two functions that do the same, and where a primitive came from.

In: a closed jaxpr. Out: text with variables by number and constants by their contents; JAX's own printing leaves out
the numbers of constants inside, and names functions by their addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from jax.extend import core

from jacserve.frameworks import _onnx


def text(closed: Any) -> str:
    """Arguments, operations with their parameters, constants and outputs."""
    return "\n".join(_lines(closed.jaxpr, closed.consts))


def _lines(jaxpr: Any, consts: Any) -> Iterator[str]:
    numbers: dict[Any, int] = {}

    def name(variable: Any) -> str:
        if isinstance(variable, core.Literal):
            return f"{variable.val}:{variable.aval}"
        return f"v{numbers.setdefault(variable, len(numbers))}:{variable.aval}"

    yield "in " + " ".join(name(variable) for variable in jaxpr.invars)
    for variable, const in zip(jaxpr.constvars, consts, strict=True):
        yield f"const {name(variable)} {constant_text(const)}"
    for equation in jaxpr.eqns:
        parameters = ", ".join(f"{key}={_parameter(value)}" for key, value in sorted(equation.params.items()))
        inputs = " ".join(name(variable) for variable in equation.invars)
        outputs = " ".join(name(variable) for variable in equation.outvars)
        yield f"{outputs} = {equation.primitive.name}[{parameters}] {inputs}"
    yield "out " + " ".join(name(variable) for variable in jaxpr.outvars)


def constant_text(const: Any) -> str:
    """A constant by its contents."""
    return _onnx.array_digest(np.asarray(const))


def _parameter(value: Any) -> str:
    if isinstance(value, core.ClosedJaxpr):
        return "{" + "; ".join(_lines(value.jaxpr, value.consts)) + "}"
    if isinstance(value, core.Jaxpr):
        return "{" + "; ".join(_lines(value, ())) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_parameter(part)}" for key, part in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(_parameter(part) for part in value) + ")"
    if isinstance(value, np.ndarray):
        return constant_text(value)
    if callable(value) and not isinstance(value, type):
        return str(
            getattr(value, "__qualname__", type(value).__qualname__)
        )  # derivative rules: the operation implies them
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def line_of(closed: Any, primitive: str) -> str:
    """Where the user's code calls a primitive, as "net.py:12 (encode)"; nothing when it is not known."""
    lines = (_line(equation) for equation in _equations(closed.jaxpr) if equation.primitive.name == primitive)
    return next(lines, "")


def _line(equation: Any) -> str:
    traceback = getattr(equation.source_info, "traceback", None)
    for frame in traceback.frames if traceback is not None else []:
        if not re.search(r"/(site|dist)-packages/|/jacserve/", frame.file_name):
            return f"{frame.file_name.rpartition('/')[2]}:{frame.line_num} ({frame.function_name})"
    return ""


def check_stops(closed: Any) -> None:
    """UnsupportedOperatorError where gradients of what depends on an argument are stopped. That of the maximum
    which logsumexp and softmax subtract may be: it has no part in their derivatives."""
    lines = list(_stops(closed.jaxpr, set(closed.jaxpr.invars)))
    if lines:
        raise _onnx.stopped(lines)


def _stops(jaxpr: Any, reached: set[Any]) -> Iterator[str]:
    for equation in jaxpr.eqns:
        inputs = _variables(equation)
        if not reached & set(inputs):
            continue
        reached.update(equation.outvars)
        if equation.primitive.name == "stop_gradient":
            maximum = _is_maximum(inputs[0], jaxpr) and _is_subtracted(equation.outvars[0], jaxpr)
            if not maximum:
                yield _line(equation) or "a function of JAX"
        for part in _parts(equation):
            yield from _stops(part, set(part.invars))


_PASSED = ("select_n", "broadcast_in_dim", "reshape", "squeeze", "max", "jit", "pjit", "convert_element_type")
_SUBTRACTED = ("sub", "add", "eq", "ne", "is_finite")


def _is_maximum(variable: Any, jaxpr: Any, depth: int = 4) -> bool:
    maker = next((equation for equation in jaxpr.eqns if variable in equation.outvars), None)
    if maker is None or depth == 0:
        return False
    if maker.primitive.name == "reduce_max":
        return True
    return maker.primitive.name in _PASSED and any(_is_maximum(each, jaxpr, depth - 1) for each in _variables(maker))


def _is_subtracted(variable: Any, jaxpr: Any) -> bool:
    users = [equation for equation in jaxpr.eqns if variable in _variables(equation)]
    return variable not in set(_outputs(jaxpr)) and all(
        user.primitive.name in _SUBTRACTED
        or (user.primitive.name in _PASSED and all(_is_subtracted(each, jaxpr) for each in user.outvars))
        for user in users
    )


def _variables(equation: Any) -> list[Any]:
    return [each for each in equation.invars if not isinstance(each, core.Literal)]


def _outputs(jaxpr: Any) -> list[Any]:
    return [each for each in jaxpr.outvars if not isinstance(each, core.Literal)]


def _equations(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for part in _parts(equation):
            yield from _equations(part)


def _parts(equation: Any) -> Iterator[Any]:
    for value in equation.params.values():
        for part in value if isinstance(value, (tuple, list)) else [value]:
            if isinstance(part, core.ClosedJaxpr):
                yield part.jaxpr
            elif isinstance(part, core.Jaxpr):
                yield part
