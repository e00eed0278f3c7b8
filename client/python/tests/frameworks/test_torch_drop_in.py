"""jacserve.torch.jacrev beside torch.func.jacrev."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

import jacserve
import jacserve.torch
from jacserve.frameworks import cache_info


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.BatchNorm1d(8), nn.Linear(8, 3)).eval()


def parameters(net: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach() for name, value in net.named_parameters()}


def check(function: Callable[..., Any], *args: Any, server: jacserve.LocalServer, **options: Any) -> None:
    expected = torch.func.jacrev(function, **options)(*args)
    got = jacserve.torch.jacrev(function, server=server, **options)(*args)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.quick
def test_a_batch_that_is_closed_over_and_a_new_one_without_a_new_export(
    net: nn.Module, server: jacserve.LocalServer
) -> None:
    def of(x: torch.Tensor) -> Any:
        return lambda p: functional_call(net, p, (x,))

    check(of(torch.randn(5, 4)), parameters(net), server=server)
    exports = cache_info().misses
    check(of(torch.randn(5, 4)), parameters(net), server=server)
    assert cache_info().misses == exports


@pytest.mark.parametrize("argnums", [0, 1, (0, 1)])
def test_arguments_by_number(argnums: Any, net: nn.Module, server: jacserve.LocalServer) -> None:
    def apply(p: Any, x: Any) -> Any:
        return functional_call(net, p, (x,))

    check(apply, parameters(net), torch.randn(5, 4), server=server, argnums=argnums)


def test_per_sample_functions_by_vmap(net: nn.Module, server: jacserve.LocalServer) -> None:
    x = torch.randn(5, 4)
    one = lambda p, sample: functional_call(net, p, (sample[None],))[0]  # noqa: E731
    check(lambda p: vmap(one, (None, 0))(p, x), parameters(net), server=server)


def test_outputs_of_any_structure_and_auxiliary_ones(net: nn.Module, server: jacserve.LocalServer) -> None:
    x = torch.randn(5, 4)

    def apply(p: Any) -> Any:
        y = functional_call(net, p, (x,))
        return {"loss": y.sum(), "y": (y, y @ torch.ones(3, 2))}, x

    check(apply, parameters(net), server=server, has_aux=True)


def test_functions_of_parameters_alone_in_double_precision(server: jacserve.LocalServer) -> None:
    check(lambda w: torch.sin(w) * w, torch.randn(3, dtype=torch.float64), server=server)
    check(lambda w: (w**2).sum(), torch.randn(3, 2), server=server)


def test_results_are_writable_tensors_and_whole_numbers_are_refused(server: jacserve.LocalServer) -> None:
    block = jacserve.torch.jacrev(lambda w: w * 2, server=server)(torch.ones(3))
    block += 1
    assert block.diagonal().tolist() == [3.0, 3.0, 3.0]
    with pytest.raises(jacserve.InvalidRequestError, match="argument 0"):
        jacserve.torch.jacrev(lambda w: w * 2.0, server=server)(torch.ones(3, dtype=torch.int64))
