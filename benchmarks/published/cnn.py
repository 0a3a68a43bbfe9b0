"""W1: a convolutional network on MNIST, as a user writes it."""

from functad import data, nn, optim, random, train

images, labels, test_images, test_labels = data.mnist()
digits, test = (train.Dataset(train.as_inputs(x), y) for x, y in ((images, labels), (test_images, test_labels)))
network = nn.serial(
    nn.Conv(6, (3, 3), use_bias=False),
    nn.Relu(),
    nn.MaxPool((2, 2)),
    nn.Flatten(),
    nn.Dense(84, use_bias=False),
    nn.Relu(),
    nn.Dense(10, use_bias=False),
)
params = network.init(random.key(0), digits.inputs[:1])
options = {"until": 3, "batch_size": 100, "key": random.key(1), "test": test, "show_progress": True}
train.fit(train.classifier(network), params, optim.sgd(0.015), digits, **options)
