"""A torch module -> graph with its parameters as inputs, and its Jacobian by torch.func.jacrev in float64."""
import torch

from case import rename_inputs, write
from models_torch import CASES

__all__ = ["CASES", "export"]


class Functional(torch.nn.Module):
    """The module as a function of its parameters too: nothing is left that an exporter could fold or rename."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, parameters, inputs):
        return torch.func.functional_call(self.module, parameters, inputs)


def build(case):
    torch.manual_seed(case.seed())
    module = case.build().eval()
    with torch.no_grad():
        for parameter in module.parameters():  # norms start as ones and zeros, which hide mistakes
            parameter += 0.1 * torch.randn(parameter.shape)
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_()
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 2)
    return module


def onnx_of(module, weights, inputs):
    """Through torch.export with the batch left open."""
    arguments = ({name: torch.from_numpy(value) for name, value in weights.items()},
                 tuple(torch.from_numpy(value) for value in inputs.values()))
    batch = torch.export.Dim("batch")
    shapes = ({name: {} for name in weights}, tuple({0: batch} for _ in inputs))
    program = torch.export.export(Functional(module), arguments, dynamic_shapes=shapes, strict=False)
    model = torch.onnx.export(program, dynamo=True, external_data=False, verbose=False).model_proto
    rename_inputs(model, [*weights, *inputs])
    return model


def similarity(case, u, v):
    dot = u @ v.T
    if case.pairwise == "dot":
        return case.sign * dot
    if case.pairwise == "sqdist":
        return case.sign * ((u[:, None] - v[None]) ** 2).sum(-1)
    u_norm, v_norm = ((each * each).sum(1).clamp(min=case.epsilon).sqrt() for each in (u, v))
    return case.sign * dot / (u_norm[:, None] * v_norm[None])


def jacobian(case, module, batches):
    """(value, blocks of the parameters, blocks of the inputs), all float64."""
    parameters = {name: value.detach() for name, value in module.double().named_parameters()}
    data = [torch.from_numpy(array) for batch in batches for array in batch.values()]
    data = [array.double() if array.is_floating_point() else array for array in data]
    smooth = [index for index, array in enumerate(data) if case.wrt_inputs and array.is_floating_point()]

    def target(values, chosen):
        every = list(data)
        for index, value in zip(smooth, chosen, strict=True):
            every[index] = value
        size = len(case.inputs)
        outputs = [torch.func.functional_call(module, values, tuple(every[begin:begin + size]))
                   for begin in range(0, len(every), size)]
        return similarity(case, *(output.flatten(1) for output in outputs)) if case.pairwise else outputs[0]

    chosen = [data[index] for index in smooth]
    blocks = torch.func.jacrev(target, argnums=(0, 1), chunk_size=1)(parameters, chosen)
    value = target(parameters, chosen)
    parameter_blocks = {name: block.numpy() for name, block in blocks[0].items()}
    return value.numpy(), parameter_blocks, [block.numpy() for block in blocks[1]]


def export(case, folder):
    torch.backends.mha.set_fastpath_enabled(False)  # fused encoder layers have no ONNX form
    module, batches = build(case), case.batches()
    weights = {name: value.detach().numpy().copy() for name, value in module.named_parameters()}
    model = onnx_of(module, weights, batches[0])
    write(folder, case, model, weights, batches, *jacobian(case, module, batches))
