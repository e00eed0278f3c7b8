"""Golden cases of the repository, as arguments of jacserve.jacobian.

In: a case's name. Out: its arrays, its target, the numbers that its framework computed in float64.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import jacserve

REPOSITORY = Path(__file__).resolve().parents[3]
GOLDEN = REPOSITORY / "tests/golden"
NAMES = sorted(path.parent.name for path in GOLDEN.glob("*/inputs.npz"))
BLOCK_OF = {"input:0": "x", "input:1": "second.x"}


class Case:
    """One folder of tests/golden."""

    def __init__(self, name: str) -> None:
        self.folder = GOLDEN / name
        self.about = json.loads((self.folder / "case.json").read_text())
        self.graph = str(self.folder / "graph.onnx")
        if name == "seed_full":
            self.inputs = {key: np.load(self.folder / f"{key}.npy") for key in "xy"}
        else:
            self.inputs = dict(np.load(self.folder / "inputs.npz"))

    @property
    def weights(self) -> Path | None:
        return self.folder / "weights.npz" if self.about.get("functional", True) else None

    @property
    def expected(self) -> dict[str, Any]:
        """By block name, and "value"."""
        with np.load(self.folder / "expected.npz") as arrays:
            return {BLOCK_OF.get(key, key): array for key, array in arrays.items()}

    def target(self) -> Any:
        target = self.about["target"]
        if target["kind"] == "outputs":
            return None
        form = {"epsilon": target["epsilon"], "form": target["form"]} if target["similarity"] == "cosine" else {}
        return jacserve.pairwise(self.inputs["y"], target["similarity"], target["sign"], **form)

    def jacobian(self, server: Any, **changes: Any) -> jacserve.Jacobian:
        """With respect to all that the case holds numbers for."""
        arguments: dict[str, Any] = {
            "weights": self.weights,
            "target": self.target(),
            "wrt": self.about["wrt"],
            "wrt_inputs": self.about.get("wrt_inputs", False),
            "server": server,
        }
        return jacserve.jacobian(self.graph, self.inputs["x"], **{**arguments, **changes})
