"""W3: a convolutional network that tells praise from blame in film reviews, as a user of PyTorch writes it."""

import re
import time
from collections import Counter

import torch
import torch.nn.functional as F
from torch import nn

from functad import data


def words_of(text):
    return re.findall(r"[^\W_]+(?:'[^\W_]+)*", re.sub(r"<br\s*/?>", " ", text).lower())


def read(texts):
    found = torch.zeros(len(texts), 130, dtype=torch.long)
    for row, text in zip(found, texts):
        part = [numbers.get(word, 1) for word in words_of(text)[:130]]
        row[: len(part)] = torch.tensor(part)
    return found


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.conv, self.out = nn.Embedding(12_849, 50), nn.Conv1d(50, 8, 3), nn.Linear(128, 1)
        nn.init.normal_(self.embedding.weight, std=0.1)

    def forward(self, words):
        x = self.embedding(words).transpose(1, 2)
        return self.out(F.max_pool1d(F.relu(self.conv(x)), 8).flatten(1))[:, 0]


reviews = data.imdb()
counts = Counter(word for text in reviews.train_texts for word in words_of(text))
numbers = {word: i for i, (word, _) in enumerate(counts.most_common(12_847), 2)}
words, test_words = read(reviews.train_texts), read(reviews.test_texts)
labels, test_labels = (torch.from_numpy(y) for y in (reviews.train_labels, reviews.test_labels))
network = Network()
optimizer = torch.optim.Adam(network.parameters(), 1e-3)
for epoch in range(5):
    started, total = time.perf_counter(), 0.0
    for chosen in torch.randperm(len(labels)).split(64):
        loss = F.binary_cross_entropy_with_logits(network(words[chosen]), labels[chosen].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(chosen)
    seconds = time.perf_counter() - started
    with torch.no_grad():
        pairs = zip(test_words.split(250), test_labels.split(250))
        right = sum(((network(x) > 0) == (y > 0)).sum().item() for x, y in pairs)
    print(epoch + 1, f"{seconds:.2f} s", total / len(labels), right / len(test_labels))
