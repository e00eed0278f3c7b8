"""The function whose rows are wanted.

In: a caller's words. Out: a target, checked, that can write itself into a request.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from jacserve.errors import InvalidRequestError
from jacserve.wire.messages import enum_number

_SIMILARITIES = ("cosine", "dot", "sqdist")
_FORMS = ("sqrt_max_sum", "max_norm", "add_product")


@dataclass(frozen=True)
class Outputs:
    """The model's output over the batch; row r is entry r of its C-order flattening."""

    name: str = ""


@dataclass(frozen=True, eq=False)
class Pairwise:
    """M[i, j] = sign * similarity(f(x_i), f(y_j)); row r is entry r of M in C order."""

    y: Any
    similarity: str = "cosine"
    sign: float = 1.0
    epsilon: float = 1e-12
    form: str = "sqrt_max_sum"
    output: str = ""


Target = Outputs | Pairwise


def outputs(name: str = "") -> Outputs:
    """Targets one output of the graph, flattened over the batch.

    Args:
        name: of the output; may be left out when the graph has one.
    """
    return Outputs(name)


def pairwise(
    y: Any,
    similarity: str = "cosine",
    sign: float = 1,
    epsilon: float = 1e-12,
    form: str = "sqrt_max_sum",
    *,
    output: str = "",
) -> Pairwise:
    """Targets the matrix of similarities of all pairs of two batches, shape (len(x), len(y)).

    Args:
        y: the second batch, given as `x` is; shapes as those of x, but for axis 0.
        similarity: of u = f(x_i) and v = f(y_j): "cosine", "dot" (u.v) or "sqdist" (|u - v|^2).
        sign: multiplies the similarity; -1 gives a loss. Any finite number but 0.
        epsilon: >= 0, for cosine only.
        form: how a cosine treats embeddings of (almost) no length: "sqrt_max_sum", u / sqrt(max(sum u^2, epsilon)), as
            Keras does; "max_norm", u / max(|u|, epsilon), as torch does; "add_product", u.v / (|u| |v| + epsilon).
        output: name of the graph output that is f; may be left out when the graph has one.

    Raises:
        InvalidRequestError: an unknown similarity or form, a sign of 0, a negative epsilon.
    """
    if similarity not in _SIMILARITIES:
        raise InvalidRequestError(f"similarity={similarity!r}; it must be one of {', '.join(_SIMILARITIES)}")
    if form not in _FORMS:
        raise InvalidRequestError(f"form={form!r}; it must be one of {', '.join(_FORMS)}")
    if not math.isfinite(sign) or sign == 0:
        raise InvalidRequestError("sign must be a number other than 0")
    if not math.isfinite(epsilon) or epsilon < 0:
        raise InvalidRequestError("epsilon must be 0 or more")
    return Pairwise(y, similarity, float(sign), float(epsilon), form, output)


def write_target(target: Target, message: Any) -> None:
    """Fills a Target message."""
    if isinstance(target, Outputs):
        message.output = target.name
        return
    message.output = target.output
    message.pairwise.similarity = enum_number("Similarity", f"SIMILARITY_{target.similarity.upper()}")
    message.pairwise.sign = target.sign
    if target.similarity == "cosine":
        message.pairwise.cosine_form = enum_number("CosineForm", f"COSINE_FORM_{target.form.upper()}")
        message.pairwise.epsilon = target.epsilon
