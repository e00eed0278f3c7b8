"""Networks as people write them in JAX: each function is one parity case, its keywords the inputs and the target.

A function takes a generator and returns (parameters, apply(parameters, *inputs)).
"""
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax

from case import normal, registry, tokens

CASES, case = registry()


def weight(rng, *shape):
    return rng.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))


def dense(rng, before, after):
    return {"w": weight(rng, before, after), "b": 0.3 * rng.standard_normal(after)}


def affine(layer, x):
    return x @ layer["w"] + layer["b"]


def layer_norm(layer, x):
    centred = x - x.mean(-1, keepdims=True)
    return layer["g"] * centred / jnp.sqrt((centred ** 2).mean(-1, keepdims=True) + 2.0 ** -17) + layer["b"]


def gains(rng, size):
    return {"g": 1 + 0.2 * rng.standard_normal(size), "b": 0.2 * rng.standard_normal(size)}


def conv(x, kernel, stride=1, padding="SAME", **keywords):
    return lax.conv_general_dilated(x, kernel, (stride,) * (x.ndim - 2), padding,
                                    dimension_numbers=("NHWC", "HWIO", "NHWC"), **keywords)


@case(x=normal(5, 4), wrt_inputs=True)
def mlp_tanh(rng):
    return {"a": dense(rng, 4, 8), "b": dense(rng, 8, 3)}, lambda p, x: affine(p["b"], jnp.tanh(affine(p["a"], x)))


@case(x=normal(5, 4))
def mlp_relu_softmax(rng):
    return ({"a": dense(rng, 4, 8), "b": dense(rng, 8, 3)},
            lambda p, x: jax.nn.softmax(affine(p["b"], jax.nn.relu(affine(p["a"], x)))))


@case(x=normal(5, 4), wrt_inputs=True)
def mlp_softplus_sigmoid_silu(rng):
    def apply(p, x):
        x = jax.nn.softplus(affine(p["a"], x))
        return affine(p["c"], jax.nn.silu(affine(p["b"], jax.nn.sigmoid(x))))
    return {"a": dense(rng, 4, 6), "b": dense(rng, 6, 6), "c": dense(rng, 6, 2)}, apply


@case(x=normal(5, 4), rounded_constants=True)
def mlp_gelu_selu_elu(rng):
    def apply(p, x):
        return affine(p["c"], jax.nn.elu(jax.nn.selu(affine(p["b"], jax.nn.gelu(affine(p["a"], x))))))
    return {"a": dense(rng, 4, 6), "b": dense(rng, 6, 6), "c": dense(rng, 6, 2)}, apply


@case(x=normal(3, 60, 60, 2), pairwise="cosine", sign=-1)
def seed_encoder_cosine(rng):
    def apply(p, x):
        for kernel, stride in ((p["c0"], 4), (p["c1"], 2), (p["c2"], 1)):
            x = jax.nn.relu(conv(x, kernel["w"], stride) + kernel["b"])
        return affine(p["e"], jax.nn.relu(affine(p["d"], x.reshape(x.shape[0], -1))))
    return {"c0": {"w": weight(rng, 8, 8, 2, 3), "b": 0.1 * rng.standard_normal(3)},
            "c1": {"w": weight(rng, 4, 4, 3, 4), "b": 0.1 * rng.standard_normal(4)},
            "c2": {"w": weight(rng, 3, 3, 4, 4), "b": 0.1 * rng.standard_normal(4)},
            "d": dense(rng, 256, 6), "e": dense(rng, 6, 5)}, apply


@case(x=normal(3, 5), pairwise="sqdist", wrt_inputs=True)
def embedding_sqdist(rng):
    return {"a": dense(rng, 5, 6), "b": dense(rng, 6, 4)}, lambda p, x: affine(p["b"], jnp.tanh(affine(p["a"], x)))


@case(x=normal(2, 9, 9, 4))
def conv_depthwise_dilated(rng):
    def apply(p, x):
        x = jax.nn.relu(conv(x, p["depthwise"], feature_group_count=4))
        x = jnp.tanh(conv(x, p["dilated"], padding="VALID", rhs_dilation=(2, 2)))
        return affine(p["out"], x.mean((1, 2)))
    return {"depthwise": weight(rng, 3, 3, 1, 8), "dilated": weight(rng, 3, 3, 8, 3), "out": dense(rng, 3, 2)}, apply


@case(x=normal(2, 8, 8, 2))
def conv_pooled(rng):
    def apply(p, x):
        x = nnx.max_pool(jax.nn.relu(conv(x, p["a"])), window_shape=(2, 2), strides=(2, 2))
        return nnx.avg_pool(conv(x, p["b"]), window_shape=(2, 2), strides=(2, 2)).reshape(x.shape[0], -1)
    return {"a": weight(rng, 3, 3, 2, 4), "b": weight(rng, 3, 3, 4, 3)}, apply


@case(x=normal(2, 8, 8, 2), refused="(MaxPool)")  # a window axis over the batch
def conv_pooled_by_windows(rng):
    def apply(p, x):
        x = lax.reduce_window(jax.nn.relu(conv(x, p["a"])), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = lax.reduce_window(conv(x, p["b"]), 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
        return x.reshape(x.shape[0], -1)
    return {"a": weight(rng, 3, 3, 2, 4), "b": weight(rng, 3, 3, 4, 3)}, apply


@case(x=normal(2, 5, 8), wrt_inputs=True)
def transformer_block(rng):
    def apply(p, x):
        normed = layer_norm(p["n1"], x)
        query, key, value = (normed @ p[name] for name in "qkv")
        x = x + jax.nn.softmax(query @ key.swapaxes(1, 2) / 2, -1) @ value @ p["o"]
        return x + affine(p["down"], jax.nn.relu(affine(p["up"], layer_norm(p["n2"], x))))
    return {**{name: weight(rng, 8, 4) for name in "qkv"}, "o": weight(rng, 4, 8), "n1": gains(rng, 8),
            "n2": gains(rng, 8), "up": dense(rng, 8, 12), "down": dense(rng, 12, 8)}, apply


@case(x=normal(2, 4, 6))
def attention_heads_einsum(rng):
    def apply(p, x):
        query, key, value = (jnp.einsum("btd,dhk->bthk", x, p[name]) for name in "qkv")
        share = jax.nn.softmax(jnp.einsum("bthk,bshk->bhts", query, key) / 2, -1)
        return jnp.einsum("bhts,bshk,hkd->btd", share, value, p["o"])
    return {**{name: weight(rng, 6, 2, 4) for name in "qkv"}, "o": weight(rng, 2, 4, 6)}, apply


@case(x=normal(3, 4, 3))
def gru_unrolled(rng):
    def apply(p, x):
        state = jnp.ones_like(x[:, 0, :1]) * p["start"]
        for step in range(4):
            both = jnp.concatenate([x[:, step], state], -1)
            reset, update = jnp.split(jax.nn.sigmoid(affine(p["gates"], both)), 2, -1)
            new = jnp.tanh(affine(p["new"], jnp.concatenate([x[:, step], reset * state], -1)))
            state = update * state + (1 - update) * new
        return state
    return {"start": rng.standard_normal(5), "gates": dense(rng, 8, 10), "new": dense(rng, 8, 5)}, apply


@case(x=normal(3, 4, 3), refused="control flow (If, Loop, Scan)")
def rnn_scanned(rng):
    def apply(p, x):
        def step(state, now):
            state = jnp.tanh(now @ p["in"] + state @ p["state"])
            return state, state
        return lax.scan(step, jnp.zeros((x.shape[0], 5), x.dtype), x.swapaxes(0, 1))[0]
    return {"in": weight(rng, 3, 5), "state": weight(rng, 5, 5)}, apply


@case(x=normal(7, 2), wrt_inputs=True)
def physics_informed_sin(rng):
    return ({"a": dense(rng, 2, 12), "b": dense(rng, 12, 12), "c": dense(rng, 12, 1)},
            lambda p, x: affine(p["c"], jnp.sin(affine(p["b"], jnp.sin(affine(p["a"], x))))))


@case(x=normal(5, 2))
def physics_informed_residual(rng):
    """The residual of u_t = u_xx itself, with the derivatives of the network inside the graph."""
    def apply(p, points):
        def along(function, z):
            return jax.jvp(function, (z,), (jnp.ones_like(z),))[1]

        def network(t, x):
            return jnp.tanh(t * p["a"]["w"][0] + x * p["a"]["w"][1] + p["a"]["b"]) @ p["b"]["w"]
        t, x = points[:, :1], points[:, 1:]
        u_xx = along(lambda outer: along(lambda inner: network(t, inner), outer), x)
        return along(lambda t: network(t, x), t) - u_xx
    return {"a": dense(rng, 2, 6), "b": dense(rng, 6, 1)}, apply


@case(x=tokens(9, 3, 5, dtype=np.int32))
def token_embedding(rng):
    return ({"table": weight(rng, 9, 4), "out": dense(rng, 4, 3)},
            lambda p, x: affine(p["out"], jnp.tanh(p["table"][x]).mean(1)))


@case(x=normal(4, 6))
def shared_weights(rng):
    def apply(p, x):
        for _ in range(3):
            x = jnp.tanh(x @ p["w"] + p["b"])
        return x @ p["w"].T
    return dense(rng, 6, 6), apply


@case(x=normal(4, 6), wrt_inputs=True)
def rms_norm_swiglu(rng):
    def apply(p, x):
        normed = p["g"] * x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 2.0 ** -17)
        return x + (jax.nn.silu(normed @ p["gate"]) * (normed @ p["up"])) @ p["down"]
    return {"g": 1 + 0.2 * rng.standard_normal(6), "gate": weight(rng, 6, 8), "up": weight(rng, 6, 8),
            "down": weight(rng, 8, 6)}, apply


@case(x=normal(4, 5))
def log_softmax_likelihood(rng):
    def apply(p, x):
        return jax.nn.log_softmax(affine(p["b"], jax.nn.relu(affine(p["a"], x))))
    return {"a": dense(rng, 5, 7), "b": dense(rng, 7, 3)}, apply


@case(x=normal(4, 3), z=normal(4, 5), wrt_inputs=True)
def bilinear_einsum(rng):
    return {"form": weight(rng, 3, 5, 2)}, lambda p, x, z: jnp.tanh(jnp.einsum("bi,ijo,bj->bo", x, p["form"], z))


@case(x=normal(5, 4))
def mixture_of_experts(rng):
    def apply(p, x):
        experts = jnp.tanh(jnp.einsum("bi,eio->beo", x, p["experts"]))
        return jnp.einsum("be,beo->bo", jax.nn.softmax(affine(p["gate"], x)), experts)
    return {"experts": weight(rng, 3, 4, 2), "gate": dense(rng, 4, 3)}, apply


@case(x=normal(4, 5), wrt_inputs=True)
def coupled_batch_whitened(rng):
    def apply(p, x):
        hidden = affine(p["a"], x)
        centred = hidden - hidden.mean(0)
        return centred / jnp.sqrt((centred ** 2).mean(0) + 0.125)
    return {"a": dense(rng, 5, 4)}, apply


@case(x=normal(4, 6))
def residual_maximum_where(rng):
    def apply(p, x):
        hidden = affine(p["a"], x)
        return affine(p["b"], jnp.where(hidden > 0, hidden, 0.25 * hidden) + jnp.maximum(hidden, x)) + jnp.abs(x)
    return {"a": dense(rng, 6, 6), "b": dense(rng, 6, 6)}, apply


@case(x=normal(2, 4, 4, 2))
def upsampling_nearest(rng):
    def apply(p, x):
        grown = jnp.repeat(jnp.repeat(jnp.tanh(conv(x, p["a"])), 2, 1), 2, 2)
        return conv(grown, p["b"], padding="VALID")
    return {"a": weight(rng, 3, 3, 2, 3), "b": weight(rng, 3, 3, 3, 1)}, apply


@case(x=normal(6, 3))
def gaussian_process_features(rng):
    def apply(p, x):
        squares = ((x[:, None, :] - p["centres"][None]) ** 2).sum(-1)
        return jnp.exp(-squares * jnp.exp(p["log_scale"])) @ p["weights"]
    return {"centres": rng.standard_normal((4, 3)), "log_scale": 0.3 * rng.standard_normal(4),
            "weights": weight(rng, 4, 2)}, apply
