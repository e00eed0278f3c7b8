"""A torch module, and its Jacobian by torch.func.jacrev in float64."""
import torch

from models_torch import CASES

__all__ = ["CASES", "arguments", "jacobian", "live"]


def live(case, batches):
    """The module, with numbers of its own in every parameter and buffer."""
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


def arguments(batch):
    return tuple(torch.from_numpy(array) for array in batch.values())


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
    return value.numpy(), [block.numpy() for block in blocks[0].values()], [block.numpy() for block in blocks[1]]
