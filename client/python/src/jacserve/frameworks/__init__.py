"""Live models as functional graphs: one adapter for each framework, imported only when a model of it is given.

In: a Keras, torch or JAX model and a batch. Out: a Functional, whose graph is exported once for each architecture.
"""

from __future__ import annotations

from typing import Any

from jacserve.errors import InvalidRequestError
from jacserve.frameworks._onnx import EXPORTS, CacheInfo
from jacserve.functional import Functional

__all__ = ["CacheInfo", "cache_clear", "cache_info", "framework_of", "to_functional"]


def to_functional(model: Any, x: Any, *, method: str | None = None, params: Any = None) -> Functional:
    """Turns a live model into a graph whose parameters are inputs, with the arrays that go in.

    The model is traced at each call and exported when no model of that architecture was: values of weights have no part
    in that, and neither has the number of samples where the framework can leave it open.

    Args:
        model: a Keras model or tf.Module; a torch module; a JAX function of (parameters, *inputs), bare with `params=`
            or as the tuple (function, parameters). A Functional is returned as it is.
        x: a batch, samples along axis 0 of each array. A tuple holds several arguments, anything else is one.
        method: what to call instead of the model itself, as "representation"; not for JAX functions.
        params: values in place of the model's own, in the framework's structure; the parameters of a JAX function.

    Raises:
        InvalidRequestError: no framework knows such a model, or it does not take such a batch.
        UnsupportedOperatorError: an operation has no ONNX form; names it and the layer.
    """
    if isinstance(model, Functional):
        return model
    framework = framework_of(model)
    if framework == "torch":
        from jacserve.frameworks import torch as adapter
    elif framework == "keras":
        from jacserve.frameworks import keras as adapter  # type: ignore[no-redef]
    else:
        from jacserve.frameworks import jax as adapter  # type: ignore[no-redef]
    return adapter.to_functional(model, x, method=method, params=params)


def framework_of(model: Any) -> str:
    """keras, torch or jax. InvalidRequestError when it is none of them."""
    bases = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    if bases & {"keras", "tf_keras", "tensorflow"}:
        return "keras"
    if "torch" in bases:
        return "torch"
    if callable(model) or (isinstance(model, tuple) and len(model) == 2 and callable(model[0])):
        return "jax"
    raise InvalidRequestError(
        f"{type(model).__name__} is no model that jacserve knows",
        "give a Keras model, a torch module, (JAX function, parameters), or an ONNX file, its bytes or a ModelProto",
    )


def cache_info() -> CacheInfo:
    """Exports found and made since the process began."""
    return EXPORTS.info()


def cache_clear() -> None:
    """Forgets the exports in memory; files in JACSERVE_EXPORT_CACHE stay."""
    EXPORTS.clear()
