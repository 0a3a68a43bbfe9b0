"""W2: a recurrent network that reads digits of MNIST in four strips, as a user writes it."""

from functad import data, nn, optim, random, train

images, labels, test_images, test_labels = data.mnist()
digits, test = (train.Dataset(x.reshape(-1, 4, 196), y) for x, y in ((images, labels), (test_images, test_labels)))
network = nn.serial(nn.RNN(64), nn.Dense(10))
params = network.init(random.key(0), digits.inputs[:1])
options = {"until": 5, "batch_size": 100, "key": random.key(1), "test": test, "show_progress": True}
train.fit(train.classifier(network), params, optim.sgd(0.015), digits, **options)
