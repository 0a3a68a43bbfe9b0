"""W5: a perceptron of three layers on MNIST, as a user of PyTorch writes it; its width is the argument."""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

from functad import data

images, labels, test_images, test_labels = map(torch.from_numpy, data.mnist())
images, test_images = (x.view(-1, 784) for x in (images, test_images))
labels, test_labels = labels.long(), test_labels.long()
width = int(sys.argv[1])
network = nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
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
