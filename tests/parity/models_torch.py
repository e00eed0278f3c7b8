"""Networks as people write them in torch: each function is one parity case, its keywords the inputs and the target."""
import torch
from torch import nn
from torch.nn import functional as F

from case import normal, registry, tokens

CASES, case = registry()


class Function(nn.Module):
    """Layers by name and a function of (layers, *inputs)."""

    def __init__(self, function, **layers):
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def perceptron(activation, *sizes):
    layers = []
    for before, after in zip(sizes, sizes[1:]):
        layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers[:-1])


@case(x=normal(5, 4), wrt_inputs=True)
def mlp_tanh():
    return perceptron(nn.Tanh, 4, 8, 6, 3)


@case(x=normal(6, 5))
def mlp_relu():
    return perceptron(nn.ReLU, 5, 12, 12, 4)


@case(x=normal(5, 4), wrt_inputs=True)
def mlp_sigmoid_softplus():
    return nn.Sequential(nn.Linear(4, 7), nn.Sigmoid(), nn.Linear(7, 7), nn.Softplus(), nn.Linear(7, 3))


@case(x=normal(5, 4), rounded_constants=True)
def mlp_gelu():
    return perceptron(nn.GELU, 4, 9, 9, 3)


@case(x=normal(5, 4), rounded_constants=True)
def mlp_gelu_tanh():
    return perceptron(lambda: nn.GELU(approximate="tanh"), 4, 9, 3)


@case(x=normal(5, 4), rounded_constants=True)
def mlp_selu():
    return perceptron(nn.SELU, 4, 9, 9, 3)


@case(x=normal(5, 4), wrt_inputs=True)
def mlp_elu_leaky_celu():
    return nn.Sequential(nn.Linear(4, 8), nn.ELU(), nn.Linear(8, 8), nn.LeakyReLU(0.125), nn.Linear(8, 8), nn.CELU(2.0),
                         nn.Linear(8, 2))


@case(x=normal(5, 4))
def mlp_mish():
    return perceptron(nn.Mish, 4, 9, 9, 3)


@case(x=normal(5, 4), rounded_constants=True)
def mlp_hardswish_hardsigmoid():
    return nn.Sequential(nn.Linear(4, 9), nn.Hardswish(), nn.Linear(9, 9), nn.Hardsigmoid(), nn.Linear(9, 3))


@case(x=normal(5, 4))
def mlp_silu_prelu_clip():
    return nn.Sequential(nn.Linear(4, 9), nn.SiLU(), nn.Linear(9, 9), nn.PReLU(9), nn.Linear(9, 9), nn.ReLU6(),
                         nn.Linear(9, 9), nn.Softsign(), nn.Linear(9, 3))


def encoder():
    """The seed's, narrowed, in torch's layout; TensorFlow's SAME at these sizes pads (1, 2) before and after."""
    return nn.Sequential(nn.ZeroPad2d(2), nn.Conv2d(2, 3, 8, 4), nn.ReLU(), nn.ZeroPad2d((1, 2, 1, 2)),
                         nn.Conv2d(3, 4, 4, 2), nn.ReLU(), nn.Conv2d(4, 4, 3, padding="same"), nn.ReLU(), nn.Flatten(),
                         nn.Linear(256, 6), nn.ReLU(), nn.Linear(6, 5))


@case(x=normal(3, 2, 60, 60), pairwise="cosine", sign=-1)
def seed_encoder_cosine():
    network = encoder()
    network(torch.zeros(1, 2, 60, 60))
    return network


@case(x=normal(3, 2, 60, 60))
def seed_policy_head():
    network = nn.Sequential(*encoder()[:-1], nn.Linear(6, 4), nn.LogSoftmax(-1))
    network(torch.zeros(1, 2, 60, 60))
    return network


@case(x=normal(4, 6), pairwise="dot", wrt_inputs=True)
def embedding_dot():
    return perceptron(nn.Tanh, 6, 8, 5)


@case(x=normal(4, 6), pairwise="sqdist", wrt_inputs=True)
def embedding_sqdist():
    return perceptron(nn.ReLU, 6, 8, 5)


@case(x=normal(2, 3, 8, 8))
def resnet_group_norm():
    def block(width):
        return Function(lambda m, x: F.relu(x + m.n2(m.c2(F.relu(m.n1(m.c1(x)))))),
                        c1=nn.Conv2d(width, width, 3, padding=1, bias=False), n1=nn.GroupNorm(2, width),
                        c2=nn.Conv2d(width, width, 3, padding=1, bias=False), n2=nn.GroupNorm(2, width))
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), block(8), nn.MaxPool2d(2), block(8), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(8, 4))


@case(x=normal(2, 3, 10, 10), wrt_inputs=True)
def resnet_batch_norm_downsampling():
    return Function(
        lambda m, x: m.head(F.relu(m.skip(x) + m.b2(m.c2(F.relu(m.b1(m.c1(x)))))).mean((2, 3))),
        c1=nn.Conv2d(3, 6, 3, 2, 1, bias=False), b1=nn.BatchNorm2d(6), c2=nn.Conv2d(6, 6, 3, 1, 1, bias=False),
        b2=nn.BatchNorm2d(6), skip=nn.Sequential(nn.Conv2d(3, 6, 1, 2, bias=False), nn.BatchNorm2d(6)),
        head=nn.Linear(6, 3))


@case(x=normal(2, 3, 10, 10))
def mobile_inverted_bottleneck():
    return nn.Sequential(nn.Conv2d(3, 8, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(),
                         nn.Conv2d(8, 8, 3, 2, 1, groups=8, bias=False), nn.BatchNorm2d(8), nn.ReLU6(),
                         nn.Conv2d(8, 4, 1, bias=False), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(4, 3))


@case(x=normal(2, 4, 9, 9))
def conv_dilated_grouped():
    return nn.Sequential(nn.Conv2d(4, 8, 3, dilation=2, groups=2), nn.ReLU(), nn.AvgPool2d(2, 2, 1), nn.Conv2d(8, 4, 2),
                         nn.Tanh(), nn.Flatten(), nn.Linear(16, 3))


@case(x=normal(2, 1, 8, 8))
def autoencoder_transposed():
    return nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 3, 3, 2, 1), nn.ReLU(),
                         nn.ConvTranspose2d(3, 4, 3, 2, 1, output_padding=1), nn.ReLU(),
                         nn.ConvTranspose2d(4, 1, 4, 2, 1), nn.Sigmoid())


@case(x=normal(3, 2, 24), wrt_inputs=True)
def signal_conv1d():
    return nn.Sequential(nn.Conv1d(2, 4, 5, 2, 2), nn.ReLU(), nn.MaxPool1d(2),
                         nn.Conv1d(4, 4, 3, padding=2, dilation=2), nn.Tanh(), nn.AvgPool1d(2), nn.Flatten(),
                         nn.Linear(12, 3))


@case(x=normal(3, 3, 16))
def signal_upsampling_transposed1d():
    return nn.Sequential(nn.Conv1d(3, 4, 4, 2, 1), nn.Tanh(), nn.ConvTranspose1d(4, 2, 4, 2, 1, groups=2))


@case(x=normal(2, 1, 6, 7, 8))
def volume_conv3d():
    return nn.Sequential(nn.Conv3d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(3, 4, (2, 3, 3)),
                         nn.Tanh(), nn.Flatten(), nn.Linear(16, 3))


# Heads of 16: the exporter multiplies queries and keys by 16 ** -0.25 each, which float32 holds exactly.
@case(x=normal(2, 3, 32), wrt_inputs=True)
def transformer_encoder_layer():
    return nn.TransformerEncoderLayer(32, 2, 12, dropout=0.0, batch_first=True)


@case(x=normal(2, 4, 16))
def transformer_pre_norm_two_layers():
    layer = nn.TransformerEncoderLayer(16, 1, 12, dropout=0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


@case(x=normal(2, 5, 8))
def attention_causal():
    def attend(m, x):
        query, key, value = (part.unflatten(-1, (2, 16)).transpose(1, 2) for part in m.qkv(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return m.out(mixed.transpose(1, 2).flatten(2))
    return Function(attend, qkv=nn.Linear(8, 96), out=nn.Linear(32, 3))


@case(x=normal(2, 5, 16), z=normal(2, 6, 16), wrt_inputs=True)
def attention_cross():
    return Function(lambda m, x, z: m.attention(x, z, z, need_weights=False)[0],
                    attention=nn.MultiheadAttention(16, 1, batch_first=True))


@case(x=normal(3, 6, 4), wrt_inputs=True)
def lstm():
    return Function(lambda m, x: m.head(m.lstm(x)[0][:, -1]),
                    lstm=nn.LSTM(4, 5, batch_first=True), head=nn.Linear(5, 2))


@case(x=normal(2, 4, 3))
def lstm_bidirectional_two_layers():
    return Function(lambda m, x: m.head(m.lstm(x)[0].mean(1)),
                    lstm=nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), head=nn.Linear(8, 2))


@case(x=normal(3, 6, 4))
def gru():
    return Function(lambda m, x: m.head(m.gru(x)[0][:, -1]), gru=nn.GRU(4, 5, batch_first=True), head=nn.Linear(5, 2))


@case(x=normal(2, 5, 3))
def rnn_tanh():
    return Function(lambda m, x: m.rnn(x)[0], rnn=nn.RNN(3, 4, batch_first=True))


@case(x=normal(6, 10))
def autoencoder_dense():
    return perceptron(nn.ELU, 10, 6, 3, 6, 10)


@case(x=normal(7, 2), wrt_inputs=True)
def physics_informed_sin():
    return Function(lambda m, x: m.out(torch.sin(m.second(torch.sin(m.first(x))))), first=nn.Linear(2, 16),
                    second=nn.Linear(16, 16), out=nn.Linear(16, 1))


@case(x=normal(4, 3), wrt_inputs=True)
def fourier_features():
    def features(m, x):
        phase = m.frequencies(x)
        return m.out(torch.cat([torch.sin(phase), torch.cos(phase)], -1))
    return Function(features, frequencies=nn.Linear(3, 6, bias=False), out=nn.Linear(12, 2))


@case(x=tokens(11, 3, 6))
def token_embedding_mean():
    return Function(lambda m, x: m.head(F.relu(m.table(x).mean(1))), table=nn.Embedding(11, 5), head=nn.Linear(5, 3))


@case(x=tokens(7, 2, 5))
def language_model_tied_positions():
    def tied(m, x):
        hidden = torch.tanh(m.mix(m.table(x) + m.position.weight[: x.shape[1]]))
        return hidden @ m.table.weight.T
    return Function(tied, table=nn.Embedding(7, 4), position=nn.Embedding(5, 4), mix=nn.Linear(4, 4))


@case(x=normal(4, 6))
def shared_layer():
    return Function(lambda m, x: torch.tanh(m.layer(torch.tanh(m.layer(torch.tanh(m.layer(x)))))),
                    layer=nn.Linear(6, 6))


@case(x=normal(4, 6), wrt_inputs=True)
def layer_norm():
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 8), nn.LayerNorm(8),
                         nn.Linear(8, 3))


@case(x=normal(4, 6))
def rms_norm_gated():
    return Function(lambda m, x: x + m.down(F.silu(m.gate(m.norm(x))) * m.up(m.norm(x))), norm=nn.RMSNorm(6, eps=1e-6),
                    gate=nn.Linear(6, 10, bias=False), up=nn.Linear(6, 10, bias=False),
                    down=nn.Linear(10, 6, bias=False))


@case(x=normal(2, 3, 8, 8))
def instance_norm_prelu_pixel_shuffle():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.InstanceNorm2d(8, affine=True), nn.PReLU(),
                         nn.Conv2d(8, 4, 3, 2, 1), nn.PixelShuffle(2))


@case(x=normal(2, 4, 6, 6))
def squeeze_excite():
    def scale(m, x):
        maps = m.conv(x)
        return m.head((maps * m.excite(maps.mean((2, 3)))[:, :, None, None]).amax((2, 3)))
    return Function(scale, conv=nn.Conv2d(4, 6, 3, padding=1), head=nn.Linear(6, 3),
                    excite=nn.Sequential(nn.Linear(6, 2), nn.ReLU(), nn.Linear(2, 6), nn.Sigmoid()))


@case(x=normal(2, 2, 9, 9))
def pooling_average_max():
    def pool(m, x):
        maps = m.conv(x)
        return m.head(torch.cat([F.avg_pool2d(maps, 3, 2, 1), F.max_pool2d(maps, 3, 2, 1)], 1).flatten(1))
    return Function(pool, conv=nn.Conv2d(2, 3, 3, padding=1), head=nn.Linear(150, 3))


@case(x=normal(4, 6))
def residual_mlp():
    return Function(lambda m, x: m.out(m.b(torch.tanh(m.a(x))) + x), a=nn.Linear(6, 8), b=nn.Linear(8, 6),
                    out=nn.Linear(6, 2))


@case(x=normal(5, 4), wrt_inputs=True)
def mixture_of_experts():
    def mix(m, x):
        experts = torch.stack([torch.tanh(m.a(x)), F.relu(m.b(x)), m.c(x)], 1)
        return (torch.softmax(m.gate(x), -1)[:, :, None] * experts).sum(1)
    return Function(mix, a=nn.Linear(4, 3), b=nn.Linear(4, 3), c=nn.Linear(4, 3), gate=nn.Linear(4, 3))


@case(x=normal(4, 3), z=normal(4, 5), wrt_inputs=True)
def bilinear():
    return Function(lambda m, x, z: torch.tanh(m.form(x, z)), form=nn.Bilinear(3, 5, 4))


@case(x=normal(3, 4, 5), wrt_inputs=True)
def einsum():
    def contract(m, x):
        return torch.einsum("bpi,op->boi", torch.einsum("bij,pj->bpi", x, m.right.weight), m.left.weight)
    return Function(contract, left=nn.Linear(2, 3, bias=False), right=nn.Linear(5, 2, bias=False))


@case(x=normal(4, 5), wrt_inputs=True)
def coupled_batch_mean():
    def couple(m, x):
        hidden = torch.tanh(m.layer(x))
        return m.out(hidden - hidden.mean(0, keepdim=True))
    return Function(couple, layer=nn.Linear(5, 4), out=nn.Linear(4, 2))


@case(x=normal(6, 5))
def coupled_contrastive_loss():
    def loss(m, x):
        unit = F.normalize(m.layer(x), dim=-1)
        return -F.log_softmax(4 * unit @ unit.T, -1).diagonal().mean()
    return Function(loss, layer=nn.Linear(5, 4))


@case(x=normal(2, 2, 4, 5))
def upsampling_nearest():
    return nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.Tanh(), nn.Upsample(scale_factor=2), nn.Conv2d(3, 1, 3))


@case(x=normal(2, 2, 4, 5))
def upsampling_bilinear():
    return nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.Tanh(), nn.Upsample(scale_factor=2, mode="bilinear"),
                         nn.Conv2d(3, 1, 3))


@case(x=normal(5, 4), z=tokens(3, 5, 1))
def log_likelihood_of_labels():
    return Function(lambda m, x, z: torch.log_softmax(m.net(x), -1).gather(1, z), net=perceptron(nn.ReLU, 4, 8, 3))


@case(x=normal(5, 4), wrt_inputs=True)
def gaussian_log_likelihood():
    def likelihood(m, x):
        mean, deviation = m.mean(torch.tanh(m.body(x))), F.softplus(m.deviation(torch.tanh(m.body(x))))
        return -((x[:, :2] - mean) / deviation) ** 2 / 2 - torch.log(deviation)
    return Function(likelihood, body=nn.Linear(4, 6), mean=nn.Linear(6, 2), deviation=nn.Linear(6, 2))


@case(x=normal(4, 6))
def masked_where_clamp():
    def masked(m, x):
        hidden = m.layer(x)
        return m.out(torch.where(hidden > 0, hidden.clamp(max=0.75), 0.25 * hidden).abs().pow(1.5))
    return Function(masked, layer=nn.Linear(6, 5), out=nn.Linear(5, 2))


@case(x=normal(2, 2, 8, 8))
def unet():
    def forward(m, x):
        high = F.relu(m.down(x))
        low = F.relu(m.bottom(F.max_pool2d(high, 2)))
        return m.out(torch.cat([high, m.up(low)], 1))
    return Function(forward, down=nn.Conv2d(2, 4, 3, padding=1), bottom=nn.Conv2d(4, 6, 3, padding=1),
                    up=nn.ConvTranspose2d(6, 4, 2, 2), out=nn.Conv2d(8, 1, 1))
