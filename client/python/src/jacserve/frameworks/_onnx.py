"""What the adapters share: an exported graph that is kept by architecture, and the names that it gets for one model.

In: a key that tells architectures apart and never depends on a weight's value, and how to export. Out: ONNX bytes with
the model's own names. An export calls its inputs and nodes by number, so that two models built alike share it.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from jacserve.errors import InvalidRequestError, JacserveError, UnsupportedOperatorError, operators_hint

FORMAT = "1"
"""Goes into every key: changes when what is exported for the same architecture does."""

_LAYERS = "jacserve.layers"
_KEPT = 64
_MOST_LETTERS = 400
"""Of a framework's words in an error."""


class CacheInfo(NamedTuple):
    """How often an export was found and made since the process began, and how many are in memory."""

    hits: int
    misses: int
    size: int


class Exports:
    """Exported graphs by key: the last ones in memory and, where JACSERVE_EXPORT_CACHE says so, all of them on disk.

    JACSERVE_EXPORT_CACHE is a folder, or `on` for `jacserve/exports` in the user's cache folder.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: collections.OrderedDict[str, bytes] = collections.OrderedDict()
        self._hits = self._misses = 0

    def get(self, key: str, export: Callable[[], onnx.ModelProto]) -> onnx.ModelProto:
        """The graph of `key`, a copy of its own; `export` is called when it is nowhere."""
        with self._lock:
            found = self._kept.get(key)
        if found is None:
            found = _read(key)
        if found is not None:
            with self._lock:
                self._hits += 1
                self._keep(key, found)
            return onnx.load_from_string(found)
        model = export()
        content = model.SerializeToString()
        _write(key, content)
        with self._lock:
            self._misses += 1
            self._keep(key, content)
        return model

    def _keep(self, key: str, content: bytes) -> None:
        self._kept[key] = content
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)

    def info(self) -> CacheInfo:
        with self._lock:
            return CacheInfo(self._hits, self._misses, len(self._kept))

    def clear(self) -> None:
        """Forgets what is in memory; files stay."""
        with self._lock:
            self._kept.clear()


EXPORTS = Exports()


def _file(key: str) -> Path | None:
    chosen = os.environ.get("JACSERVE_EXPORT_CACHE", "")
    if chosen.lower() in ("", "0", "off"):
        return None
    if chosen.lower() in ("1", "on"):
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(home) / "jacserve" / "exports" / f"{key}.onnx"
    return Path(chosen) / f"{key}.onnx"


def _read(key: str) -> bytes | None:
    file = _file(key)
    if file is None:
        return None
    try:
        content = file.read_bytes()
        whole = bool(onnx.load_from_string(content).graph.output)
    except Exception:  # a file that cannot be read, whatever the reason, is made anew
        return None
    return content if whole else None


def _write(key: str, content: bytes) -> None:
    file = _file(key)
    if file is None:
        return
    try:  # a disk without space costs the next process an export, nothing else
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as part:
            part.write(content)
        Path(part.name).replace(file)
    except OSError:
        return


def digest(*parts: bytes | str) -> str:
    """A key of these parts in this order."""
    running = hashlib.sha256()
    for part in (FORMAT, *parts):
        encoded = part.encode() if isinstance(part, str) else part
        running.update(len(encoded).to_bytes(8, "little") + encoded)
    return running.hexdigest()


def array_digest(array: NDArray[Any]) -> str:
    """Of the numbers, their type and shape."""
    return digest(str(array.dtype), str(array.shape), np.ascontiguousarray(array).tobytes())


def unique(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """The names in order; one that is there already gets a number at its end."""
    seen, result = set(taken), []
    for name in names:
        chosen, count = name, 1
        while chosen in seen:
            count += 1
            chosen = f"{name}#{count}"
        seen.add(chosen)
        result.append(chosen)
    return result


def arrays_by_name(names: Sequence[str], leaves: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """C-contiguous numpy arrays of a batch's leaves. InvalidRequestError when their number does not fit."""
    if len(names) != len(leaves):
        raise InvalidRequestError(f"{len(leaves)} inputs were given, the model takes {len(names)}: {', '.join(names)}")
    return {name: np.ascontiguousarray(leaf) for name, leaf in zip(names, leaves, strict=True)}


def named_leaves(structure: Any, name: str) -> list[tuple[str, Any]]:
    """Leaves of nested dicts, lists and tuples; `name` for a single one, else `name.key.index`. None has no leaves."""
    if structure is None:
        return []
    if isinstance(structure, Mapping):
        parts = list(structure.items())
    elif isinstance(structure, (list, tuple)):
        keys = getattr(structure, "_fields", range(len(structure)))
        parts = list(zip(keys, structure, strict=True))
    else:
        return [(name, structure)]
    return [leaf for key, value in parts for leaf in named_leaves(value, f"{name}.{key}" if name else str(key))]


def output_names(paths: Sequence[str]) -> list[str]:
    """Names of a graph's outputs: `output` for a single one without a path, else the paths."""
    return unique(path or "output" for path in paths)


def with_layers(model: onnx.ModelProto, layers: Mapping[str, str]) -> onnx.ModelProto:
    """Keeps {prefix of a node's name: layer} in the model, for layers_of()."""
    model.metadata_props.append(onnx.StringStringEntryProto(key=_LAYERS, value=json.dumps(dict(layers))))
    return model


def layers_of(model: onnx.ModelProto) -> dict[str, str]:
    """{prefix of a node's name: layer}."""
    for entry in model.metadata_props:
        if entry.key == _LAYERS:
            return dict(json.loads(entry.value))
    return {}


def number_nodes(model: onnx.ModelProto, layer_of: Callable[[onnx.NodeProto], str]) -> onnx.ModelProto:
    """Gives nodes names that begin with their number, and keeps each one's layer by that prefix."""
    layers = {}
    for index, node in enumerate(model.graph.node):
        prefix = f"n{index:05d}_"
        if layer := layer_of(node):
            layers[prefix] = layer
        node.name = prefix + node.op_type
        del node.metadata_props[:]
    return with_layers(model, layers)


def check_operators(model: onnx.ModelProto, layers: Mapping[str, str]) -> None:
    """UnsupportedOperatorError for nodes that no version of ONNX knows: the exporter passed on what it had no form for.

    `layers`: {prefix of a node's name: layer}.
    """
    own = {(function.domain, function.name) for function in model.functions}
    unknown = {
        (node.op_type, layer_in(node.name, layers))
        for node in model.graph.node
        if (node.domain, node.op_type) not in own
        and (node.domain not in ("", "ai.onnx") or not onnx.defs.has(node.op_type))
    }
    if unknown:
        raise unsupported(sorted(unknown))


def layer_in(text: str, layers: Mapping[str, str]) -> str:
    """The layer of the first node that a text names, or nothing."""
    return next((layer for prefix, layer in layers.items() if prefix in text), "")


def unsupported(operators: Iterable[tuple[str, str]], reason: str = "") -> UnsupportedOperatorError:
    """`operators`: (name, layer that it came from or "")."""
    named = "; ".join(f"{name} in {layer}" if layer else name for name, layer in operators)
    return UnsupportedOperatorError(
        f"no ONNX form of: {named}" + (f" ({reason})" if reason else ""),
        operators_hint(named),
    )


def name_graph(model: onnx.ModelProto, inputs: Mapping[str, str], outputs: Sequence[str]) -> bytes:
    """The graph with inputs renamed {old: new} and outputs in order; an output that is called as an input gets a number
    at its end, a value inside another name.
    Initializers become constants, since an initializer would be one more parameter."""
    graph = model.graph
    _fix_initializers(graph)
    outputs = unique(outputs, inputs.values())
    renamed = {value.name: inputs.get(value.name, value.name) for value in graph.input}
    final = dict(zip((value.name for value in graph.output), outputs, strict=True))
    produced = {name for node in graph.node for name in node.output}
    direct = {old: new for old, new in final.items() if old in produced}
    renamed.update(direct)
    wanted = set(renamed.values()) | set(outputs)
    renamed.update({name: f"{name}:inner" for name in (produced - set(renamed)) & wanted})
    _rename(graph, renamed)
    for value, name in zip(graph.output, outputs, strict=True):
        if value.name != name:  # an input or a constant is an output too
            graph.node.add(op_type="Identity", name=f"output {name}", input=[value.name], output=[name])
            value.name = name
    del model.metadata_props[:]
    return model.SerializeToString()


def _fix_initializers(graph: onnx.GraphProto) -> None:
    nodes = list(graph.node)
    constants = [
        onnx.helper.make_node("Constant", [], [tensor.name], name=f"constant {tensor.name}", value=tensor)
        for tensor in graph.initializer
    ]
    del graph.initializer[:], graph.node[:]
    graph.node.extend([*constants, *nodes])


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    for value in [*graph.input, *graph.output, *graph.value_info]:
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            for part in [attribute.g, *attribute.graphs] if attribute.HasField("g") else attribute.graphs:
                _rename(part, names)


def versions(*modules: Any) -> str:
    """Names and versions, for a key: another exporter may export another graph."""
    return " ".join(f"{module.__name__} {getattr(module, '__version__', '?')}" for module in modules)


def stopped(layers: Iterable[str]) -> UnsupportedOperatorError:
    """`layers`: where the model stops gradients."""
    where = ", ".join(dict.fromkeys(layer for layer in layers if layer))
    return UnsupportedOperatorError(
        "gradients are stopped (stop_gradient, detach or no_grad)" + (f" in {where}" if where else ""),
        "ONNX has no form of that, and derivatives would pass: give what is stopped as an input of its own",
    )


@contextlib.contextmanager
def refusals(what: str) -> Iterator[None]:
    """Turns what a framework raises into an InvalidRequestError: `what` and the framework's words."""
    try:
        yield
    except JacserveError:
        raise
    except Exception as problem:  # frameworks raise many kinds
        raise InvalidRequestError(f"{what}: {in_short(problem)}") from problem


def in_short(problem: BaseException) -> str:
    """Its kind and words on one line, without colours and the trace that TensorFlow puts before them."""
    words = re.sub(r"\x1b\[[0-9;]*m", "", str(problem))
    if words.startswith("in user code:"):
        words = re.split(r"^\s*\w+(?:Error|Exception): ", words, flags=re.MULTILINE)[-1]
    words = " ".join(words.split())
    return f"{type(problem).__name__}: {words if len(words) <= _MOST_LETTERS else words[: _MOST_LETTERS - 3] + '...'}"


def first_word_after(pattern: str, text: str) -> str:
    """The first group of a pattern in an exporter's message, or nothing."""
    found = re.search(pattern, text)
    return found.group(1) if found else ""
