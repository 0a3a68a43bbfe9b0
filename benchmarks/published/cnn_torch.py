"""W1: a convolutional network on MNIST, as a user of PyTorch writes it."""

import time

import torch
import torch.nn.functional as F
from torch import nn

from functad import data

images, labels, test_images, test_labels = map(torch.from_numpy, data.mnist())
images, test_images = ((x.view(-1, 1, 28, 28) - 0.1307) / 0.3081 for x in (images, test_images))
labels, test_labels = labels.long(), test_labels.long()
network = nn.Sequential(
    nn.Conv2d(1, 6, 3, bias=False),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(1014, 84, bias=False),
    nn.ReLU(),
    nn.Linear(84, 10, bias=False),
)
optimizer = torch.optim.SGD(network.parameters(), 0.015)
for epoch in range(3):
    started, total = time.perf_counter(), 0.0
    for chosen in torch.randperm(len(labels)).split(100):
        loss = F.cross_entropy(network(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(chosen)
    seconds = time.perf_counter() - started
    with torch.no_grad():
        right = sum(
            (network(x).argmax(1) == y).sum().item() for x, y in zip(test_images.split(250), test_labels.split(250))
        )
    print(epoch + 1, f"{seconds:.2f} s", total / len(labels), right / len(test_labels))
