"""The networks of `python -m functad train text` and `train language` as a user of PyTorch writes them.

Knows PyTorch's modules, and how the params of functad's layers are named, so that both can be given the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class TextCnn(nn.Module):
    """Embedding, convolution of width 3 to 8, ReLU, max-pooling 8, dense 1."""

    def __init__(self, words: int = 12_849, length: int = 130) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 50)
        nn.init.normal_(self.embedding.weight, std=0.1)
        # In two dimensions, one of them of size 1: PyTorch takes less time for it than for Conv1d and MaxPool1d.
        self.conv = nn.Conv2d(50, 8, (1, 3))
        self.out = nn.Linear(8 * ((length - 2) // 8), 1)

    def forward(self, words: Any) -> Any:
        x = self.embedding(words).permute(0, 2, 1).unsqueeze(2)
        x = F.max_pool2d(F.relu(self.conv(x)), (1, 8))
        return self.out(x.flatten(1))[:, 0]

    def state_of(self, params: Any) -> dict[str, np.ndarray]:
        """The params of `functad.train.text_cnn` under the names and in the layouts of this module."""
        embedding, conv, out = (layer for layer in params if layer)
        kernel = np.asarray(conv["kernel"]).transpose(2, 1, 0)[:, :, None]
        weight = np.asarray(out["kernel"]).reshape(-1, 8).T.reshape(1, -1)
        return {
            "embedding.weight": embedding["embedding"],
            "conv.weight": kernel,
            "conv.bias": conv["bias"],
            "out.weight": weight,
            "out.bias": out["bias"],
        }


class LstmModel(nn.Module):
    """Embedding, LSTM, dense."""

    def __init__(self, characters: int, hidden: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, 64)
        self.lstm = nn.LSTM(64, hidden, batch_first=True)
        self.out = nn.Linear(hidden, characters)

    def forward(self, text: Any) -> Any:
        return self.out(self.lstm(self.embedding(text))[0])

    def state_of(self, params: Any) -> dict[str, np.ndarray]:
        """The params of `functad.train.language.lstm_model`; PyTorch adds a second bias."""
        embedding, lstm, out = (layer for layer in params if layer)
        return {
            "embedding.weight": embedding["embedding"],
            "lstm.weight_ih_l0": np.asarray(lstm["kernel"]).T,
            "lstm.weight_hh_l0": np.asarray(lstm["recurrent_kernel"]).T,
            "lstm.bias_ih_l0": lstm["bias"],
            "lstm.bias_hh_l0": np.zeros_like(np.asarray(lstm["bias"])),
            "out.weight": np.asarray(out["kernel"]).T,
            "out.bias": out["bias"],
        }


class Block(nn.Module):
    """Causal attention with rotary positions and two dense layers, each after a normalisation and around a residual."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.norm = nn.LayerNorm(features), nn.LayerNorm(features)
        # The three products of the same input as one, which takes PyTorch less time.
        self.query_key_value, self.attention_out = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.hidden, self.out = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        batch, steps, features = x.shape
        projected = self.query_key_value(self.attention_norm(x)).view(batch, steps, 3, self.heads, -1)
        q, k, v = projected.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(_turned(q, cos, sin), _turned(k, cos, sin), v, is_causal=True)
        x = x + self.attention_out(y.transpose(1, 2).reshape(batch, steps, features))
        return x + self.out(F.gelu(self.hidden(self.norm(x)), approximate="tanh"))

    def state_of(self, params: Any) -> dict[str, np.ndarray]:
        """The params of `functad.nn.TransformerBlock`."""
        attention = params["attention"]
        parts = [attention[part] for part in ("query", "key", "value")]
        return {
            **_norm("attention_norm", params["attention_norm"]),
            **_norm("norm", params["norm"]),
            "query_key_value.weight": np.concatenate([np.asarray(part["kernel"]).T for part in parts]),
            "query_key_value.bias": np.concatenate([np.asarray(part["bias"]) for part in parts]),
            **_dense("attention_out", attention["out"]),
            **_dense("hidden", params["hidden"]),
            **_dense("out", params["out"]),
        }


class TransformerModel(nn.Module):
    """Embedding, blocks, normalisation, dense."""

    def __init__(self, characters: int, features: int = 128, layers: int = 4, heads: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, features)
        nn.init.normal_(self.embedding.weight, std=0.02 * features**0.5)
        self.blocks = nn.ModuleList([Block(features, heads) for _ in range(layers)])
        self.norm, self.out = nn.LayerNorm(features), nn.Linear(features, characters)
        self.half = features // heads // 2

    def forward(self, text: Any) -> Any:
        rates = torch.exp(torch.arange(self.half) * (-np.log(10_000.0) / self.half))
        angles = torch.arange(text.shape[1])[:, None] * rates
        cos, sin = angles.cos(), angles.sin()
        x = self.embedding(text)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.out(self.norm(x))

    def state_of(self, params: Any) -> dict[str, np.ndarray]:
        """The params of `functad.train.language.transformer_model`."""
        blocks = {
            f"blocks.{i}.{name}": value
            for i, block in enumerate(self.blocks)
            for name, value in block.state_of(params[f"block{i}"]).items()
        }
        rest = {**_norm("norm", params["norm"]), **_dense("out", params["out"])}
        return {"embedding.weight": params["embedding"]["embedding"], **blocks, **rest}


def with_params(network: Any, params: Any) -> Any:
    """The network with the params of functad's."""
    state = {name: torch.tensor(np.array(value)) for name, value in network.state_of(params).items()}
    network.load_state_dict(state)
    return network


def _turned(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def _dense(name: str, params: Any) -> dict[str, np.ndarray]:
    return {f"{name}.weight": np.asarray(params["kernel"]).T, f"{name}.bias": params["bias"]}


def _norm(name: str, params: Any) -> dict[str, np.ndarray]:
    return {f"{name}.weight": params["scale"], f"{name}.bias": params["bias"]}
