"""Neural networks: layers as pairs of pure functions, the functions of `jax.nn`, initializers, losses.

Knows the public names only.

Args:
    x: an array.
    predictions, targets: arrays of one shape.

Shapes:
    A function of the elements keeps the shape of its argument; a layer says what it takes when it gets another shape.

Raises:
    DTypeError: an argument is no array of numbers, or of another kind of them.
    ShapeError: an array, or parameters, have other shapes than the layer or the function takes.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.nn import initializers
from functad.nn.activations import (
    Activation,
    Celu,
    Elu,
    Gelu,
    Identity,
    LeakyRelu,
    LogSoftmax,
    Mish,
    Relu,
    Relu6,
    Selu,
    Sigmoid,
    Silu,
    Softmax,
    Softplus,
    Tanh,
)
from functad.nn.attention import dot_product_attention
from functad.nn.cells import gru_cell, lstm_cell, rnn_cell
from functad.nn.combining import parallel, residual, serial
from functad.nn.convolution import Conv, ConvTranspose
from functad.nn.dropout import Dropout
from functad.nn.embedding import Embedding
from functad.nn.functions import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    identity,
    leaky_relu,
    log1mexp,
    log_sigmoid,
    log_softmax,
    logmeanexp,
    logsumexp,
    mish,
    one_hot,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softmax,
    softplus,
    sparse_plus,
    sparse_sigmoid,
    squareplus,
    standardize,
    swish,
    tanh,
)
from functad.nn.layer import Buffered, Layer
from functad.nn.linear import Dense
from functad.nn.losses import (
    huber_loss,
    l2_loss,
    sigmoid_binary_cross_entropy,
    softmax_cross_entropy,
    softmax_cross_entropy_with_integer_labels,
    squared_error,
)
from functad.nn.metrics import accuracy, confusion_matrix, f1_score, perplexity, precision, recall, top_k_accuracy
from functad.nn.multi_head import Attention, KeyValueCache, MultiHeadAttention, TransformerBlock, empty_cache
from functad.nn.normalization import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from functad.nn.pooling import AvgPool, MaxPool
from functad.nn.positions import LearnedPositions, SinusoidalPositions, rotary_embedding, sinusoidal_positions
from functad.nn.ragged import Ragged, each_step, length_mask
from functad.nn.recurrent import GRU, LSTM, RNN, Recurrent
from functad.nn.recurrent_combining import Bidirectional, stacked
from functad.nn.shaping import Flatten
from functad.nn.truncated import truncated_bptt, windows
from functad.nn.weights import MixedPrecision, SpectralNorm, WeightNorm
from functad.system.later import elsewhere

if TYPE_CHECKING:
    from functad.nn.summaries import LayerSummary, NetworkSummary, summary

__all__ = [
    "Activation",
    "Attention",
    "AvgPool",
    "BatchNorm",
    "Bidirectional",
    "Buffered",
    "Celu",
    "Conv",
    "ConvTranspose",
    "Dense",
    "Dropout",
    "Elu",
    "Embedding",
    "Flatten",
    "GRU",
    "Gelu",
    "GroupNorm",
    "Identity",
    "InstanceNorm",
    "KeyValueCache",
    "LSTM",
    "Layer",
    "LayerNorm",
    "LayerSummary",
    "LeakyRelu",
    "LearnedPositions",
    "LogSoftmax",
    "MaxPool",
    "Mish",
    "MixedPrecision",
    "MultiHeadAttention",
    "NetworkSummary",
    "RMSNorm",
    "RNN",
    "Ragged",
    "Recurrent",
    "Relu",
    "Relu6",
    "Selu",
    "Sigmoid",
    "Silu",
    "SinusoidalPositions",
    "Softmax",
    "Softplus",
    "SpectralNorm",
    "Tanh",
    "TransformerBlock",
    "WeightNorm",
    "accuracy",
    "celu",
    "confusion_matrix",
    "dot_product_attention",
    "each_step",
    "elu",
    "empty_cache",
    "f1_score",
    "gelu",
    "glu",
    "gru_cell",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "huber_loss",
    "identity",
    "initializers",
    "l2_loss",
    "leaky_relu",
    "length_mask",
    "log1mexp",
    "log_sigmoid",
    "log_softmax",
    "logmeanexp",
    "logsumexp",
    "lstm_cell",
    "mish",
    "one_hot",
    "parallel",
    "perplexity",
    "precision",
    "recall",
    "relu",
    "relu6",
    "residual",
    "rnn_cell",
    "rotary_embedding",
    "selu",
    "serial",
    "sigmoid",
    "sigmoid_binary_cross_entropy",
    "silu",
    "sinusoidal_positions",
    "soft_sign",
    "softmax",
    "softmax_cross_entropy",
    "softmax_cross_entropy_with_integer_labels",
    "softplus",
    "sparse_plus",
    "sparse_sigmoid",
    "squared_error",
    "squareplus",
    "stacked",
    "standardize",
    "summary",
    "swish",
    "tanh",
    "top_k_accuracy",
    "truncated_bptt",
    "windows",
]

if not TYPE_CHECKING:
    _PLACES = {"functad.nn.summaries": ["LayerSummary", "NetworkSummary", "summary"]}
    __getattr__ = absent(__name__, found=elsewhere(__name__, _PLACES))


def __dir__() -> list[str]:
    return __all__
