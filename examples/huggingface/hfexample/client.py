"""A node: trains the model that it is sent on its own sentences."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from hfexample.task import Net, load, train

app = ClientApp()


@app.train()
def fit(message: Message, context: Context) -> Message:
    """From the model that came to the model that this node trained."""
    torch.manual_seed(0)
    model = Net()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    part, parts = context.node_config["partition-id"], context.node_config["num-partitions"]
    x, y = load(int(part), int(parts))
    loss = train(model, x, y)
    metrics = MetricRecord({"num-examples": len(x), "loss": loss})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content, reply_to=message)
