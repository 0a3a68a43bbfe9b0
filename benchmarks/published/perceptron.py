"""W5: a perceptron of three layers on MNIST, as a user writes it; its width is the argument."""

import sys

from functad import data, nn, optim, random, train

images, labels, test_images, test_labels = data.mnist()
digits, test = (train.Dataset(x.reshape(-1, 784), y) for x, y in ((images, labels), (test_images, test_labels)))
width = int(sys.argv[1])
network = nn.serial(nn.Dense(width), nn.Relu(), nn.Dense(width), nn.Relu(), nn.Dense(10))
params = network.init(random.key(0), digits.inputs[:1])
options = {"until": 3, "batch_size": 100, "key": random.key(1), "test": test, "show_progress": True}
train.fit(train.classifier(network), params, optim.sgd(0.015), digits, **options)
