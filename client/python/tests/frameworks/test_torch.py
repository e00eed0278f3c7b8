"""torch modules as functional graphs."""

from __future__ import annotations

import warnings
from typing import Any

import export_torch
import numpy as np
import pytest
import torch
from live_models import check, chosen, numbers
from torch import nn

import jacserve
from jacserve.frameworks import cache_info, to_functional

MODELS = """mlp_tanh seed_encoder_cosine embedding_dot resnet_batch_norm_downsampling conv_dilated_grouped
transformer_encoder_layer lstm language_model_tied_positions coupled_contrastive_loss log_likelihood_of_labels"""


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(3)


@pytest.mark.parametrize("case", chosen(export_torch, MODELS, "resnet_batch_norm_downsampling"))
def test_a_live_model_has_its_own_float64_jacobian(case: Any, server: jacserve.LocalServer) -> None:
    check(export_torch, case, server)


class Network(nn.Module):
    """Tied weights, a buffer that is learned, one of whole numbers, dropout, and a method besides forward."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3, 4, bias=False)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.back = nn.Linear(4, 3, bias=False)
        self.back.weight = nn.Parameter(torch.randn(3, 4))
        self.again = nn.Linear(4, 3, bias=False)
        self.again.weight = self.back.weight
        self.register_buffer("order", torch.tensor([2, 0, 1, 3]))

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(torch.tanh(self.norm(self.embed(x))[:, self.order]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.encode(x)
        return self.back(hidden) + self.again(hidden) ** 2


def expected(function: Any, parameters: dict[str, torch.Tensor]) -> dict[str, Any]:
    detached = {name: value.detach() for name, value in parameters.items()}
    return {name: block.numpy() for name, block in torch.func.jacrev(function)(detached).items()}


@pytest.mark.quick
def test_tied_weights_buffers_and_modes_are_those_of_evaluation(server: jacserve.LocalServer) -> None:
    network, x = Network(), torch.randn(5, 3)
    network(x)  # moves the statistics
    assert network.training
    jac = jacserve.jacobian(network, x, server=server)
    assert network.training and network.norm.training and network.drop.training
    assert sorted(jac.blocks) == sorted(name for name, _ in network.named_parameters())
    assert "again.weight" not in jac
    assert sorted(jac.functional.shared_inputs) == ["norm.running_mean", "norm.running_var"]
    network.eval()
    blocks = expected(lambda p: torch.func.functional_call(network, p, (x,)), dict(network.named_parameters()))
    for name, block in blocks.items():
        np.testing.assert_allclose(jac[name][...], block, atol=1e-5)


def test_a_method_other_than_forward_is_exported_and_leaves_the_rest_unconnected(
    server: jacserve.LocalServer,
) -> None:
    network, x, y = Network().eval(), torch.randn(5, 3), torch.randn(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # nobody misspelt what the method leaves out
        jac = jacserve.jacobian(network, x, target=jacserve.pairwise(y, "dot"), method="encode", server=server)
    with pytest.warns(UserWarning, match=r"lacks 2 of the \d+ weights.*back\.wieght"):
        jacserve.jacobian(
            network,
            x,
            target=jacserve.pairwise(y, "dot"),
            method="encode",
            weights={"back.wieght": np.zeros((4, 3), np.float32)},
            server=server,
        )
    np.testing.assert_allclose(jac.value, (network.encode(x) @ network.encode(y).T).detach(), atol=1e-5)
    assert jac["back.weight"] is None
    assert jac["embed.weight"].shape == (5, 2, 4, 3)


@pytest.mark.quick
def test_new_weights_buffers_and_batch_sizes_need_no_new_export(server: jacserve.LocalServer) -> None:
    network, x = Network().eval(), torch.randn(1, 3)
    before = numbers(jacserve.jacobian(network, x, server=server))
    exports = cache_info().misses
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2).add_(0.25)
        network.norm.running_mean.normal_()
    x = torch.randn(6, 3)
    after = numbers(jacserve.jacobian(network, x, server=server))
    assert cache_info().misses == exports
    blocks = expected(lambda p: torch.func.functional_call(network, p, (x,)), dict(network.named_parameters()))
    for name, block in blocks.items():
        np.testing.assert_allclose(after[name], block, atol=1e-4)
        assert not np.allclose(after[name][:1], before[name])


@pytest.mark.parametrize("change", ["activation", "index"])
def test_a_changed_architecture_is_exported_again(change: str, server: jacserve.LocalServer) -> None:
    network, x = Network().eval(), torch.randn(4, 3)
    jacserve.jacobian(network, x, server=server)
    exports = cache_info().misses
    if change == "activation":
        network.norm = nn.Identity()
    else:
        network.order = torch.tensor([0, 1, 2, 3])  # a constant of the graph
    value = jacserve.jacobian(network, x, server=server).value
    assert cache_info().misses == exports + 1
    np.testing.assert_allclose(value, network(x).detach(), atol=1e-5)


def test_a_float64_module_is_computed_in_float64_unless_said(server: jacserve.LocalServer) -> None:
    network, x = nn.Linear(3, 2).double(), torch.randn(4, 3, dtype=torch.float64)
    assert jacserve.jacobian(network, x, server=server).dtype == np.float64
    assert jacserve.jacobian(network, x, precision="fp32", server=server).dtype == np.float32
    assert jacserve.jacobian(network.float(), x.float(), server=server).dtype == np.float32


def test_keyword_arguments_and_named_outputs(server: jacserve.LocalServer) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 2), nn.Linear(4, 2)

        def forward(self, left: torch.Tensor, right: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"sum": self.a(left) + self.b(right), "left": self.a(left)}

    two, x = Two(), {"right": torch.randn(5, 4), "left": torch.randn(5, 3)}
    jac = jacserve.jacobian(two, x, target=jacserve.outputs("sum"), wrt_inputs=["right"], wrt="*", server=server)
    np.testing.assert_allclose(jac.value, two(**x)["sum"].detach(), atol=1e-6)
    assert jac["right"].shape == (5, 2, 5, 4)
    assert jac["b.weight"].shape == (5, 2, 2, 4)
    alone = jacserve.jacobian(two, x, target=jacserve.outputs("left#2"), server=server)
    assert alone["b.weight"] is None


def test_a_batch_size_that_must_stay_is_exported_as_it_is(server: jacserve.LocalServer) -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert x.shape[0] == 4
            return self.layer(x)

    fixed, x = Fixed(), torch.randn(4, 3)
    jac = jacserve.jacobian(fixed, x, server=server)
    np.testing.assert_allclose(jac.value, fixed(x).detach(), atol=1e-6)


@pytest.mark.quick
def test_an_operation_without_onnx_form_is_named_with_its_module() -> None:
    class Spectrum(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.i1e(x)

    model = nn.Sequential(nn.Linear(3, 3), Spectrum())
    with pytest.raises(jacserve.UnsupportedOperatorError, match=r"bessel_i1e in 1 \(Spectrum\)"):
        to_functional(model, torch.randn(4, 3))


@pytest.mark.quick
@pytest.mark.parametrize("how", ["detach", "no_grad"])
def test_stopped_gradients_are_refused_and_not_passed(how: str) -> None:
    class Stop(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if how == "detach":
                return x * x.detach()
            with torch.no_grad():
                scale = 2 * x
            return x * scale

    with pytest.raises(jacserve.UnsupportedOperatorError, match=r"gradients are stopped .* in 1 \(Stop\)"):
        to_functional(nn.Sequential(nn.Linear(3, 3), Stop()), torch.randn(4, 3))


def test_what_cannot_be_exported_is_said() -> None:
    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.sum() > 0 else x

    with pytest.raises(jacserve.InvalidRequestError, match=r"torch\.export refuses the module"):
        to_functional(Branch(), torch.randn(4, 3))
    with pytest.raises(jacserve.InvalidRequestError, match="never called"):
        to_functional(nn.LazyLinear(3), torch.randn(4, 3))
    with pytest.raises(jacserve.InvalidRequestError, match="no method encode"):
        to_functional(nn.Linear(3, 2), torch.randn(4, 3), method="encode")
