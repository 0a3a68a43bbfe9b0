"""W3: a convolutional network that tells praise from blame in film reviews, as a user writes it."""

from functad import data, nn, optim, random, train

reviews = data.imdb()
tokens, test_tokens = ([data.tokenize(text) for text in texts] for texts in (reviews.train_texts, reviews.test_texts))
vocabulary = data.Vocabulary.of(tokens, size=12_849)
words, test_words = (data.pad([vocabulary.encode(text) for text in texts], 130) for texts in (tokens, test_tokens))
network = nn.serial(
    nn.Embedding(len(vocabulary), 50, nn.initializers.normal(0.1)),
    nn.Conv(8, (3,), layout="NWC"),
    nn.Relu(),
    nn.MaxPool((8,), layout="NWC"),
    nn.Flatten(),
    nn.Dense(1),
)
params = network.init(random.key(0), words[:1])
training, test = train.Dataset(words, reviews.train_labels), train.Dataset(test_words, reviews.test_labels)
options = {"until": 5, "batch_size": 64, "key": random.key(1), "test": test, "show_progress": True}
train.fit(train.binary_classifier(network), params, optim.adam(1e-3), training, **options)
