"""A node: trains the model that it is sent on its digits, and scores it on others of its own."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from sklearnexample.task import load, model_of, train

app = ClientApp()


@app.train()
def fit(message: Message, context: Context) -> Message:
    """From the model that came to the model that this node trained."""
    part, parts = context.node_config["partition-id"], context.node_config["num-partitions"]
    (x, y), _ = load(int(part), int(parts))
    trained = train(message.content["arrays"].to_numpy_ndarrays(), x, y)
    metrics = MetricRecord({"num-examples": len(x)})
    content = RecordDict({"arrays": ArrayRecord(trained), "metrics": metrics})
    return Message(content, reply_to=message)


@app.evaluate()
def score(message: Message, context: Context) -> Message:
    """The share of this node's held-out digits that the model names."""
    part, parts = context.node_config["partition-id"], context.node_config["num-partitions"]
    _, (x, y) = load(int(part), int(parts))
    model = model_of(message.content["arrays"].to_numpy_ndarrays())
    metrics = MetricRecord({"num-examples": len(x), "accuracy": model.score(x, y)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
