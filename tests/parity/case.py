"""What a parity case is: a model with inputs, written as a folder in the form of tests/golden, and read back."""
import dataclasses
import json
import os
import zlib

import numpy as np

FILES = {"weights": "weights.npz", "inputs": "inputs.npz", "expected": "expected.npz"}
SECOND = "second."  # before an input's name: the second batch of a pairwise target


def normal(*shape):
    """Draws float32 normal numbers; axis 0 is the batch."""
    return lambda rng, more: rng.standard_normal((shape[0] + more, *shape[1:])).astype(np.float32)


def tokens(vocabulary, *shape, dtype=np.int64):
    """Draws whole numbers below `vocabulary`; axis 0 is the batch."""
    return lambda rng, more: rng.integers(0, vocabulary, (shape[0] + more, *shape[1:])).astype(dtype)


@dataclasses.dataclass
class Case:
    name: str
    build: object  # the model function, as each framework's exporter calls it
    inputs: dict  # name -> draw(rng, additional samples)
    pairwise: str = ""  # cosine, dot or sqdist of two batches; empty: the outputs themselves
    sign: int = 1
    epsilon: float = 1e-12
    wrt_inputs: bool = False  # the inputs are differentiated too
    # The exporter writes a constant such as sqrt(2) as float32, so that it is not quite the framework's function.
    rounded_constants: bool = False
    # What jacserve must say instead of computing: the model needs what the README says it does not do.
    refused: str = ""

    def seed(self):
        return zlib.crc32(self.name.encode())

    def rng(self):
        """The same numbers at each call, other ones for each case."""
        return np.random.default_rng(self.seed())

    def batches(self):
        """[inputs] or, for a pairwise target, [inputs, inputs of a second batch that is one sample longer]."""
        rng = self.rng()
        sizes = (0, 1) if self.pairwise else (0,)
        return [{name: draw(rng, more) for name, draw in self.inputs.items()} for more in sizes]

    def target(self):
        if not self.pairwise:
            return {"kind": "outputs"}
        return {"kind": "pairwise", "similarity": self.pairwise, "sign": self.sign, "epsilon": self.epsilon,
                "form": "sqrt_max_sum"}


def registry():
    """(cases, decorator): each decorated function becomes a case; keywords that Case has not are inputs."""
    cases = []
    options = {field.name for field in dataclasses.fields(Case)}

    def case(**keywords):
        def register(build):
            inputs = {name: draw for name, draw in keywords.items() if name not in options}
            chosen = {name: value for name, value in keywords.items() if name in options}
            cases.append(Case(build.__name__, build, inputs, **chosen))
            return build
        return register
    return cases, case


def smooth_inputs(case, batches):
    """Blocks' names of the inputs to differentiate: the float ones, each batch's in order."""
    return [prefix + name for prefix, batch in zip(("", SECOND), batches) for name, array in batch.items()
            if case.wrt_inputs and array.dtype == np.float32]


def write(folder, case, functional, batches, value, parameter_blocks, input_blocks):
    """`functional`: the model as jacserve.frameworks made it.

    `parameter_blocks`: in the order of its parameters; None where the target does not reach one.
    `input_blocks`: in the order of smooth_inputs().
    """
    batches = [dict(zip(functional.inputs, batch.values(), strict=True)) for batch in batches]
    expected = {"value": value, **dict(zip(smooth_inputs(case, batches), input_blocks, strict=True))}
    parameters = dict(zip(functional.parameter_names, parameter_blocks, strict=True))
    for name, block in parameters.items():
        if block is not None:
            expected[name] = block.reshape(value.shape + functional.weights[name].shape)
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/graph.onnx", "wb") as file:
        file.write(functional.graph)
    np.savez(f"{folder}/{FILES['weights']}", **functional.weights, **functional.shared_inputs)
    np.savez(f"{folder}/{FILES['inputs']}", **{prefix + name: array for prefix, batch in zip(("", SECOND), batches)
                                               for name, array in batch.items()})
    np.savez(f"{folder}/{FILES['expected']}", **expected)
    with open(f"{folder}/case.json", "w") as file:  # the last one: a folder that has it is complete
        json.dump({"name": case.name, "functional": True, "target": case.target(), "wrt": list(parameters),
                   "unconnected": [name for name, block in parameters.items() if block is None],
                   "wrt_inputs": smooth_inputs(case, batches[:1]), "rounded_constants": case.rounded_constants,
                   "refused": case.refused},
                  file, indent=1)
