"""Layers compared with PyTorch's: with numbers that it gave (2.13), and, where it is installed, with itself."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from functad import nn
from functad import numpy as jnp


def fill(phase, *shape):
    return np.sin(np.arange(np.prod(shape)) * 1.3 + phase).astype(np.float32).reshape(shape)


def summed(y):
    """Three sums over an array, in which every element counts."""
    y = np.asarray(y, np.float64).ravel()
    return [float(y @ np.cos(np.arange(y.size) * rate)) for rate in (0.1, 0.7, 2.3)]


X = fill(0, 2, 6, 5, 5)
STEPS, CONTEXT = fill(1, 3, 5, 8), fill(2, 3, 7, 8)
SCALE, BIAS = fill(3, 6), fill(4, 6)
QKV, QKV_BIAS, OUT, OUT_BIAS = fill(5, 24, 8), fill(6, 24), fill(7, 8, 8), fill(8, 8)
IN, IN_BIAS, BACK, BACK_BIAS = fill(9, 16, 8), fill(10, 16), fill(11, 8, 16), fill(12, 8)
NORMS = [fill(13 + k, 8) for k in range(4)]
WINDOW, WINDOW_BIAS = fill(17, 6, 4, 3, 3), fill(18, 4)  # as ConvTranspose2d has it
GROUPED = fill(19, 4, 3, 3, 3)
TABLE, WORDS = fill(20, 7, 3), np.array([[1, 2], [6, 0]])
LENGTHS = np.array([4, 7, 2])
LOGITS, CLASSES = fill(21, 6, 4), np.array([0, 3, 1, 1, 2, 0])
TARGETS = CLASSES[:, None] == np.arange(4)
NORMED, DIRECTION = {"scale": SCALE, "bias": BIAS}, fill(22, 4, 3)


def dense(kernel, bias):
    return {"kernel": jnp.asarray(kernel.T), "bias": jnp.asarray(bias)}


ATTENTION = {
    n: dense(QKV[8 * k : 8 * k + 8], QKV_BIAS[8 * k : 8 * k + 8]) for k, n in enumerate(("query", "key", "value"))
}
ATTENTION["out"] = dense(OUT, OUT_BIAS)
BLOCK = {
    "attention": ATTENTION,
    "attention_norm": {"scale": NORMS[0], "bias": NORMS[1]},
    "norm": {"scale": NORMS[2], "bias": NORMS[3]},
    "hidden": dense(IN, IN_BIAS),
    "out": dense(BACK, BACK_BIAS),
}


def batch_norm():
    """Two steps of training, then their running means."""
    layer = nn.BatchNorm()
    buffers = layer.buffers(X)
    for k in (1.0, 2.0):
        y, buffers = layer.apply(NORMED, k * X, buffers=buffers, train=True)
    return jnp.stack([y, layer.apply(NORMED, X, buffers=buffers)[0]])


def spectral_norm():
    layer, kernel = nn.SpectralNorm(nn.Dense(4, use_bias=False)), jnp.asarray(DIRECTION.T)
    buffers = {"layer": (), "u": {"['kernel']": jnp.asarray(fill(23, 4) / np.linalg.norm(fill(23, 4)))}}
    return layer.apply({"kernel": kernel}, jnp.asarray(TABLE), buffers=buffers, train=True)[0]


def attended_step_by_step():
    layer, cache = nn.MultiHeadAttention(2, is_causal=True), nn.empty_cache(3, 5, 2, 4)
    parts = []
    for at in (slice(0, 3), slice(3, 4), slice(4, 5)):
        y, cache = layer.apply(ATTENTION, STEPS[:, at], cache=cache)
        parts.append(y)
    return jnp.concatenate(parts, 1)


OURS = {
    "LayerNorm": lambda: nn.LayerNorm().apply({"scale": NORMS[0], "bias": NORMS[1]}, STEPS),
    "RMSNorm": lambda: nn.RMSNorm().apply({"scale": NORMS[0]}, STEPS),
    "GroupNorm": lambda: nn.GroupNorm(3).apply(NORMED, X),
    "InstanceNorm": lambda: nn.InstanceNorm().apply(NORMED, X),
    "BatchNorm": batch_norm,
    "Conv": lambda: nn.Conv(4, (3, 3), 2, 1, groups=2, dilation=2, use_bias=False).apply(
        {"kernel": jnp.asarray(GROUPED.transpose(2, 3, 1, 0))}, X
    ),
    "ConvTranspose": lambda: nn.ConvTranspose(4, (3, 3), strides=2, padding=1).apply(
        {"kernel": jnp.asarray(WINDOW.transpose(2, 3, 0, 1)), "bias": WINDOW_BIAS}, X
    ),
    "Embedding": lambda: nn.Embedding(7, 3).apply({"embedding": jnp.asarray(TABLE)}, WORDS),
    "MaxPool": lambda: nn.MaxPool((3, 3), 2, 1).apply((), X),
    "AvgPool": lambda: nn.AvgPool((3, 3), 2, 1).apply((), X),
    "MultiHeadAttention": lambda: nn.MultiHeadAttention(2).apply(ATTENTION, STEPS),
    "of a context with a mask": lambda: nn.MultiHeadAttention(2).apply(
        ATTENTION, STEPS, context=CONTEXT, mask=(np.arange(7) < LENGTHS[:, None])[:, None, None, :]
    ),
    "of the steps so far": attended_step_by_step,
    "TransformerBlock": lambda: nn.TransformerBlock(2, 16, is_causal=True).apply(BLOCK, STEPS),
    "WeightNorm": lambda: nn.WeightNorm(nn.Dense(4, use_bias=False)).apply(
        {"layer": {"kernel": jnp.asarray(DIRECTION.T)}, "scale": {"['kernel']": jnp.asarray(BIAS[:4])}}, TABLE
    ),
    "SpectralNorm": spectral_norm,
    "softmax_cross_entropy": lambda: nn.softmax_cross_entropy_with_integer_labels(LOGITS, CLASSES),
    "sigmoid_binary_cross_entropy": lambda: nn.sigmoid_binary_cross_entropy(LOGITS, np.float32(TARGETS)),
    "huber_loss": lambda: nn.huber_loss(3 * LOGITS, np.float32(TARGETS)),
}


def theirs():
    import torch

    f, t = torch.nn.functional, torch.tensor
    later = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)

    def attention(query, context, **options):
        return f.multi_head_attention_forward(
            *(t(a.swapaxes(0, 1)) for a in (query, context, context)), 8, 2, t(QKV), t(QKV_BIAS), None, None, False,
            0.0, t(OUT), t(OUT_BIAS), need_weights=False, **options,
        )[0].transpose(0, 1)  # fmt: skip

    def batch_norm():
        layer = torch.nn.BatchNorm2d(6)
        layer.load_state_dict({**layer.state_dict(), "weight": t(SCALE), "bias": t(BIAS)})
        y = [layer(k * t(X)) for k in (1, 2)][-1]
        return torch.stack([y, layer.eval()(t(X))])

    def block():
        layer = torch.nn.TransformerEncoderLayer(
            8, 2, 16, 0.0, lambda x: f.gelu(x, approximate="tanh"), batch_first=True, norm_first=True
        )
        values = [QKV, QKV_BIAS, OUT, OUT_BIAS, IN, IN_BIAS, BACK, BACK_BIAS, *NORMS]
        layer.load_state_dict(dict(zip(layer.state_dict(), map(t, values), strict=True)))
        return layer(t(STEPS), src_mask=later)

    def spectral_norm():
        layer = torch.nn.Linear(3, 4, bias=False)
        layer.weight.data = t(DIRECTION)
        parametrized = torch.nn.utils.parametrizations.spectral_norm(layer).eval()
        v = f.normalize(t(DIRECTION).T @ t(fill(23, 4)), dim=0)
        norm = parametrized.parametrizations.weight[0]
        norm._v, norm._u = v, f.normalize(t(DIRECTION) @ v, dim=0)
        return parametrized(t(TABLE))

    lengths = t(np.arange(7) >= LENGTHS[:, None])
    return {
        "LayerNorm": lambda: f.layer_norm(t(STEPS), (8,), t(NORMS[0]), t(NORMS[1])),
        "RMSNorm": lambda: f.rms_norm(t(STEPS), (8,), t(NORMS[0]), 1e-6),
        "GroupNorm": lambda: f.group_norm(t(X), 3, t(SCALE), t(BIAS)),
        "InstanceNorm": lambda: f.instance_norm(t(X), weight=t(SCALE), bias=t(BIAS)),
        "BatchNorm": batch_norm,
        "Conv": lambda: f.conv2d(t(X), t(GROUPED), stride=2, padding=1, dilation=2, groups=2),
        "ConvTranspose": lambda: f.conv_transpose2d(t(X), t(WINDOW), t(WINDOW_BIAS), stride=2, padding=1),
        "Embedding": lambda: f.embedding(t(WORDS), t(TABLE)),
        "MaxPool": lambda: f.max_pool2d(t(X), 3, 2, 1),
        "AvgPool": lambda: f.avg_pool2d(t(X), 3, 2, 1, count_include_pad=False),
        "MultiHeadAttention": lambda: attention(STEPS, STEPS),
        "of a context with a mask": lambda: attention(STEPS, CONTEXT, key_padding_mask=lengths),
        "of the steps so far": lambda: attention(STEPS, STEPS, attn_mask=later),
        "TransformerBlock": block,
        "WeightNorm": lambda: t(TABLE) @ torch._weight_norm(t(DIRECTION), t(BIAS[:4, None]), 0).T,
        "SpectralNorm": spectral_norm,
        "softmax_cross_entropy": lambda: f.cross_entropy(t(LOGITS), t(CLASSES), reduction="none"),
        "sigmoid_binary_cross_entropy": lambda: f.binary_cross_entropy_with_logits(
            t(LOGITS), t(TARGETS).float(), reduction="none"
        ),
        "huber_loss": lambda: f.huber_loss(t(3 * LOGITS), t(TARGETS).float(), reduction="none"),
    }


# What PyTorch gave, summed.
RECORDED = {
    "LayerNorm": [1.86852, -3.40282, 1.09646],
    "RMSNorm": [2.16041, -1.05321, 0.05229],
    "GroupNorm": [9.12908, -6.34913, -1.82629],
    "InstanceNorm": [9.06402, -6.33903, -1.81034],
    "BatchNorm": [2.80128, 1.17574, -1.14844],
    "Conv": [-0.07438, -1.17435, 1.21587],
    "ConvTranspose": [-6.63940, -3.79820, -2.40828],
    "Embedding": [0.42663, 2.92969, -1.55280],
    "MaxPool": [-5.14745, -1.56947, -6.10060],
    "AvgPool": [-0.30129, -0.09964, -6.31639],
    "MultiHeadAttention": [0.33292, 2.04138, 29.60292],
    "of a context with a mask": [6.16678, 6.34677, 69.48255],
    "of the steps so far": [-1.92748, 2.90460, 1.48717],
    "TransformerBlock": [3.24263, 7.86926, 35.06806],
    "WeightNorm": [-0.02273, -3.46046, -0.08300],
    "SpectralNorm": [0.38214, -0.05525, -1.23511],
    "softmax_cross_entropy": [7.70889, -0.32018, -0.59079],
    "sigmoid_binary_cross_entropy": [5.24664, -1.95595, -0.82331],
    "huber_loss": [10.33058, -3.03011, -0.27051],
}


@pytest.mark.parametrize("name", OURS)
def test_layers_give_the_numbers_of_pytorch(name):
    np.testing.assert_allclose(summed(OURS[name]()), RECORDED[name], rtol=2e-4, atol=2e-4)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("name", OURS)
def test_and_pytorch_gives_them(name):
    wanted = theirs()[name]().detach().numpy()
    np.testing.assert_allclose(OURS[name](), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(summed(wanted), RECORDED[name], rtol=2e-4, atol=2e-4)
