"""W2: a recurrent network that reads digits of MNIST in four strips, as a user of PyTorch writes it."""

import time

import torch
import torch.nn.functional as F
from torch import nn

from functad import data

images, labels, test_images, test_labels = map(torch.from_numpy, data.mnist())
images, test_images = (x.view(-1, 4, 196) for x in (images, test_images))
labels, test_labels = labels.long(), test_labels.long()


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.RNN(196, 64, batch_first=True), nn.Linear(64, 10)
        for weight in (self.rnn.weight_ih_l0, self.rnn.weight_hh_l0, self.out.weight):
            nn.init.xavier_uniform_(weight)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


network = Network()
optimizer = torch.optim.SGD(network.parameters(), 0.015)
for epoch in range(5):
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
