"""Compares jacserve's Jacobian of a live model of tests/parity with the one that its framework computes in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jacserve

TOLERANCE = 1e-9  # of a block's largest value
ROUNDED_CONSTANTS = 1e-6  # instead, where an exporter writes constants as float32
ZERO_BY_SYMMETRY = 1e-12  # of all blocks' largest value: a block below it holds rounding only


def chosen(framework: Any, names: str, quick: str) -> list[Any]:
    """Parity cases by name as pytest parameters; those in `quick` are marked so."""
    cases = {case.name: case for case in framework.CASES}
    marked = quick.split()
    return [
        pytest.param(cases[name], id=name, marks=[pytest.mark.quick] if name in marked else [])
        for name in names.split()
    ]


def check(framework: Any, case: Any, server: jacserve.LocalServer) -> jacserve.Jacobian:
    """Names, shapes, unconnected parameters, the value and every number."""
    batches = case.batches()
    model = framework.live(case, batches)
    target = jacserve.outputs()
    if case.pairwise:
        y = framework.arguments(batches[1])
        target = jacserve.pairwise(y, case.pairwise, sign=case.sign, epsilon=case.epsilon)
    arguments = framework.arguments(batches[0])
    every = {"wrt": "*", "wrt_inputs": True} if case.wrt_inputs else {}  # "*" is all parameters and no constants
    jac = jacserve.jacobian(model, arguments, target=target, precision="fp64", server=server, **every)
    value, parameter_blocks, input_blocks = framework.jacobian(case, model, batches)

    np.testing.assert_allclose(jac.value, value, atol=1e-6 if case.rounded_constants else 1e-9)
    expected = dict(zip(jac.functional.parameter_names, parameter_blocks, strict=True))
    inputs = [name for name in jac.blocks if name not in expected]
    expected.update(zip(inputs, input_blocks, strict=True))
    assert set(jac.blocks) == set(expected)
    overall = max(np.abs(block).max() for block in expected.values() if block is not None)
    rows = jac.rows()
    for name, block in expected.items():
        if jac[name] is None:
            assert block is None or not block.any(), f"{name} is not unconnected"
            continue
        got = rows[name].reshape(jac.blocks[name].shape)
        assert got.shape == block.shape, name
        largest = np.abs(block).max()
        scale = largest if largest > ZERO_BY_SYMMETRY * overall else overall
        tolerance = ROUNDED_CONSTANTS if case.rounded_constants else TOLERANCE
        assert np.abs(got - block).max() <= tolerance * scale, name
    return jac


def numbers(jac: jacserve.Jacobian) -> dict[str, Any]:
    """Every connected block in full."""
    return {name: np.asarray(jac[name][...]) for name in jac.blocks if jac[name] is not None}
