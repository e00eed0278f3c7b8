"""Networks as people write them in Keras: each function is one parity case, its keywords the inputs and the target."""
import keras
import numpy as np
from keras import layers, ops

from case import normal, registry, tokens

CASES, case = registry()


@case(x=normal(5, 4), wrt_inputs=True)
def mlp_tanh_sigmoid():
    return keras.Sequential([layers.Dense(8, "tanh"), layers.Dense(6, "sigmoid"), layers.Dense(3)])


@case(x=normal(5, 4))
def mlp_relu_softmax():
    return keras.Sequential([layers.Dense(9, "relu"), layers.Dense(9, "relu"), layers.Dense(4, "softmax")])


@case(x=normal(5, 4), wrt_inputs=True)
def mlp_elu_softplus_softsign():
    return keras.Sequential([layers.Dense(8, "elu"), layers.Dense(8, "softplus"), layers.Dense(8, "softsign"),
                             layers.Dense(2)])


@case(x=normal(5, 4), rounded_constants=True)
def mlp_gelu_selu():
    return keras.Sequential([layers.Dense(8, lambda x: ops.gelu(x, approximate=True)), layers.Dense(8, "selu"),
                             layers.Dense(2)])


@case(x=normal(5, 4), rounded_constants=True)
def mlp_silu_mish_hard_silu():
    return keras.Sequential([layers.Dense(8, "silu"), layers.Dense(8, "mish"), layers.Dense(8, "hard_silu"),
                             layers.Dense(2)])


class Encoder(keras.Model):
    """The seed's, narrowed; the policy head's layer is there and not reached by the embedding."""

    def __init__(self, policy):
        super().__init__(name="nn")
        self.policy = policy
        self.body = [layers.Conv2D(3, 8, 4, "same", activation="relu"),
                     layers.Conv2D(4, 4, 2, "same", activation="relu"),
                     layers.Conv2D(4, 3, 1, "same", activation="relu"), layers.Flatten(), layers.Dense(6, "relu")]
        self.embedding, self.logits = layers.Dense(5, name="embedding"), layers.Dense(4, name="logits")

    def call(self, x):
        for layer in self.body:
            x = layer(x)
        embedding, logits = self.embedding(x), self.logits(x)
        return ops.log_softmax(logits) if self.policy else embedding


@case(x=normal(3, 60, 60, 2), pairwise="cosine", sign=-1)
def seed_encoder_cosine():
    return Encoder(policy=False)


@case(x=normal(3, 60, 60, 2))
def seed_policy_head():
    return Encoder(policy=True)


@case(x=normal(3, 5), pairwise="dot")
def embedding_dot():
    return keras.Sequential([layers.Dense(6, "tanh"), layers.Dense(4)])


@case(x=normal(3, 5), pairwise="sqdist", wrt_inputs=True)
def embedding_sqdist():
    return keras.Sequential([layers.Dense(6, "relu"), layers.Dense(4)])


@case(x=normal(2, 8, 8, 3))
def resnet_batch_norm():
    x = start = keras.Input((8, 8, 3))
    x = skip = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(6, 3, padding="same", use_bias=False)(x)))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(6, 3, padding="same", use_bias=False)(x)))
    x = layers.BatchNormalization()(layers.Conv2D(6, 3, padding="same", use_bias=False)(x))
    x = layers.ReLU()(layers.Add()([x, skip]))
    return keras.Model(start, layers.Dense(3)(layers.GlobalAveragePooling2D()(x)))


@case(x=normal(2, 6, 6, 4))
def conv_group_norm():
    return keras.Sequential([layers.Conv2D(8, 3, padding="same"), layers.GroupNormalization(4), layers.ReLU(),
                             layers.Conv2D(4, 3, strides=2, padding="same"), layers.Flatten(), layers.Dense(2)])


@case(x=normal(2, 9, 9, 3))
def separable_and_depthwise():
    return keras.Sequential([layers.SeparableConv2D(6, 3, padding="same", activation="relu"),
                             layers.DepthwiseConv2D(3, 2, "same", depth_multiplier=2), layers.ReLU(6.0),
                             layers.GlobalMaxPooling2D(), layers.Dense(3)])


@case(x=normal(2, 8, 8, 1))
def autoencoder_transposed():
    return keras.Sequential([layers.Conv2D(4, 3, 2, "same", activation="relu"),
                             layers.Conv2D(3, 3, 2, "same", activation="relu"),
                             layers.Conv2DTranspose(4, 3, 2, "same", activation="relu"),
                             layers.Conv2DTranspose(1, 4, 2, "same", activation="sigmoid")])


@case(x=normal(2, 9, 10, 2), wrt_inputs=True)
def conv_dilated_pooled():
    return keras.Sequential([layers.Conv2D(4, 3, dilation_rate=2, padding="same", activation="tanh"),
                             layers.AveragePooling2D(2, padding="same"), layers.Conv2D(4, (2, 3), (1, 2)),
                             layers.MaxPooling2D(3, 1, "same"), layers.Flatten(), layers.Dense(2)])


@case(x=normal(3, 20, 2))
def signal_causal_conv1d():
    return keras.Sequential([layers.Conv1D(4, 3, padding="causal", dilation_rate=2, activation="relu"),
                             layers.MaxPooling1D(2), layers.Conv1D(4, 3, padding="same", activation="tanh"),
                             layers.GlobalAveragePooling1D(), layers.Dense(3)])


@case(x=normal(2, 5, 6, 6, 1))
def volume_conv3d():
    return keras.Sequential([layers.Conv3D(3, 3, padding="same", activation="tanh"),
                             layers.Conv3D(4, (2, 3, 3), (1, 2, 2), activation="relu"), layers.Flatten(),
                             layers.Dense(2)])


@case(x=normal(2, 5, 8), wrt_inputs=True)
def transformer_encoder():
    x = start = keras.Input((5, 8))
    x = layers.LayerNormalization(epsilon=1e-6)(x + layers.MultiHeadAttention(2, 4)(x, x))
    x = layers.LayerNormalization(epsilon=1e-6)(x + layers.Dense(8)(layers.Dense(12, "gelu")(x)))
    return keras.Model(start, layers.Dense(2)(layers.GlobalAveragePooling1D()(x)))


# Fresh offsets are zero: a channel that is zero throughout meets relu6's bend everywhere.
@case(x=normal(2, 9, 9, 2))
def mobile_blocks_relu6():
    def block(units):
        return [layers.DepthwiseConv2D(3, padding="same", use_bias=False), layers.BatchNormalization(), layers.ReLU(6.0),
                layers.Conv2D(units, 1, use_bias=False), layers.BatchNormalization(), layers.ReLU(6.0)]

    return keras.Sequential([*block(6), *block(8), *block(8), layers.GlobalAveragePooling2D(), layers.Dense(2)])


@case(x=normal(3, 5, 4))
def lstm_unrolled():
    return keras.Sequential([layers.LSTM(5, unroll=True), layers.Dense(2)])


@case(x=normal(3, 5, 4))  # its loop is exported unrolled
def lstm_looped():
    return keras.Sequential([layers.LSTM(5), layers.Dense(2)])


@case(x=normal(3, 5, 4), wrt_inputs=True)
def gru_unrolled():
    return keras.Sequential([layers.GRU(5, return_sequences=True, unroll=True), layers.Dense(2)])


@case(x=tokens(9, 3, 6, dtype=np.int32))
def token_embedding_conv():
    return keras.Sequential([layers.Embedding(9, 4), layers.Conv1D(5, 3, activation="relu"),
                             layers.GlobalMaxPooling1D(), layers.Dense(3)])


@case(x=normal(4, 6))
def shared_layer_residual():
    start = keras.Input((6,))
    layer = layers.Dense(6, "tanh")
    return keras.Model(start, layer(layer(start) + start) + start)


@case(x=normal(4, 6))
def layer_and_unit_norm():
    return keras.Sequential([layers.Dense(8), layers.LayerNormalization(epsilon=1e-6), layers.Activation("tanh"),
                             layers.Dense(4), layers.UnitNormalization()])


@case(x=normal(4, 6))
def rms_norm():
    return keras.Sequential([layers.Dense(8), layers.RMSNormalization(epsilon=1e-6), layers.Dense(3, "relu")])


@case(x=normal(2, 6, 6, 4))
def squeeze_excite():
    x = start = keras.Input((6, 6, 4))
    x = layers.Conv2D(6, 3, padding="same")(x)
    gate = layers.Dense(6, "sigmoid")(layers.Dense(2, "tanh")(layers.GlobalAveragePooling2D(keepdims=True)(x)))
    return keras.Model(start, layers.Dense(3)(layers.GlobalAveragePooling2D()(ops.relu(x * gate))))


@case(x=normal(2, 4, 5, 2))
def upsampling():
    return keras.Sequential([layers.Conv2D(3, 3, padding="same", activation="tanh"), layers.UpSampling2D(2),
                             layers.Conv2D(2, 3), layers.ZeroPadding2D(1), layers.Cropping2D(1), layers.PReLU()])


@case(x=normal(5, 4), wrt_inputs=True)
def mixture_of_experts():
    start = keras.Input((4,))
    experts = ops.stack([layers.Dense(3, "tanh")(start) for _ in range(3)], 1)
    gate = layers.Dense(3, "softmax")(start)
    return keras.Model(start, ops.sum(ops.expand_dims(gate, -1) * experts, 1))


@case(x=normal(4, 3), z=normal(4, 5), wrt_inputs=True)
def two_inputs_product():
    x, z = keras.Input((3,), name="x"), keras.Input((5,), name="z")
    joined = layers.Concatenate()([layers.Dense(4, "tanh")(x), layers.Dense(4)(z), layers.Multiply()(
        [layers.Dense(4)(x), layers.Dense(4)(z)])])
    return keras.Model([x, z], layers.Dense(2)(layers.Dropout(0.5)(joined)))


@case(x=normal(4, 6, 5))
def einsum_dense_and_permute():
    return keras.Sequential([layers.EinsumDense("abc,cd->abd", (6, 4), bias_axes="d"), layers.Permute((2, 1)),
                             layers.Dense(3, "relu"), layers.Reshape((12,)), layers.Dense(2)])
