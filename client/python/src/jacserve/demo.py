"""`python -m jacserve demo`: the Jacobian that the project began with, from Keras, as a picture of its rows' norms.

In: sizes. Out: a 56 x 56 matrix of similarities, its Jacobian of 14.3 GB streamed through a local server in batches of
rows, and demo.png. At no time does this process hold more than the memory limit's worth of rows.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import jacserve
from jacserve.errors import InvalidRequestError

IMAGES = 56


def build_encoder() -> Any:
    """The encoder: two stacked 60x60 frames -> embeddings of 64, in method `representation`; 1,139,168 parameters that
    the embedding reaches, and a policy head that it does not."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import keras
    except ImportError as error:
        raise InvalidRequestError("the demo builds its model in Keras", "pip install jacserve[keras]") from error
    layers = keras.layers

    class Encoder(keras.Model):
        def __init__(self) -> None:
            super().__init__(name="encoder")
            self.body = [
                layers.Conv2D(32, 8, 4, "same", activation="relu", name="conv0"),
                layers.Conv2D(64, 4, 2, "same", activation="relu", name="conv1"),
                layers.Conv2D(64, 3, 1, "same", activation="relu", name="conv2"),
                layers.Flatten(),
                layers.Dense(256, activation="relu", name="dense0"),
                layers.Dense(64, activation="relu", name="dense1"),
            ]
            self.policy = layers.Dense(4, name="policy")

        def representation(self, frames: Any) -> Any:
            for layer in self.body:
                frames = layer(frames)
            return frames

        def call(self, frames: Any) -> Any:
            return self.policy(self.representation(frames))

    keras.utils.set_random_seed(0)
    encoder = Encoder()
    encoder(np.zeros((1, 60, 60, 2), np.float32))
    return encoder


def frames(images: int, seed: int) -> NDArray[np.float32]:
    """Two stacked frames of a bright disc that moves: shape (images, 60, 60, 2), values in [0, 1]."""
    rng = np.random.default_rng(seed)
    start, motion = rng.uniform(10, 50, (images, 2)), rng.normal(0, 3, (images, 2))
    centres = np.stack([start, start + motion], -1)[:, :, None, None, :]  # image, axis, 1, 1, frame
    axis = np.arange(60)
    distance = (axis[:, None, None] - centres[:, 0]) ** 2 + (axis[None, :, None] - centres[:, 1]) ** 2
    result: NDArray[np.float32] = np.exp(-distance / rng.uniform(20, 120, (images, 1, 1, 1))).astype(np.float32)
    return result


def seed_jacobian(encoder: Any, images: int, server: Any = None, **options: Any) -> jacserve.Jacobian:
    """Of the negated cosine similarities of two batches' embeddings: images x images rows."""
    x, y = frames(images, 1), frames(images, 2)
    target = jacserve.pairwise(y, "cosine", sign=-1)
    return jacserve.jacobian(encoder, x, target=target, method="representation", server=server, **options)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m jacserve demo", description=__doc__)
    parser.add_argument("--images", type=int, default=IMAGES, help="of each batch (default: %(default)s)")
    parser.add_argument("--memory-limit", default="512MiB", help="for rows in this process (default: %(default)s)")
    parser.add_argument("--server", metavar="HOST:PORT", help="default: JACSERVE_SERVER, else a local one")
    parser.add_argument("--out", default="demo.png", help="the picture (default: %(default)s)")
    parsed = parser.parse_args(arguments)
    encoder = build_encoder()
    begin = time.perf_counter()
    jac = seed_jacobian(encoder, parsed.images, parsed.server, memory_limit=parsed.memory_limit)
    jac.rows(0, 1)
    first = time.perf_counter() - begin
    print(repr(jac))
    print(f"exported, sent and first row after {first:.1f} s; now all of them, {parsed.memory_limit} at a time")
    from jacserve.plot import row_norms

    begin = time.perf_counter()
    row_norms(jac, parsed.out)
    seconds = time.perf_counter() - begin
    print(f"{len(jac):,} rows, {jac.nbytes / 1e9:.2f} GB in {seconds:.1f} s: {parsed.out}")
    return 0
