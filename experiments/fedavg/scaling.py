"""The 2NN on pixels between 0 and 1: `mnist_2nn` without the scaling to mean 0 and deviation 1."""

from dataclasses import replace
from pathlib import Path

from fedsim.tasks import Data, get_task

MEAN, DEVIATION = 0.1307, 0.3081
"""Those of the training pixels, by which `mnist_2nn` scales."""


def load_unit(folder: Path | None, download: bool) -> Data:
    """MNIST: 60,000 training and 10,000 test images (·, 1, 28, 28), pixels divided by 255."""
    data = get_task("mnist_2nn").load(folder, download)
    train, test = (x * DEVIATION + MEAN for x in (data.train_x, data.test_x))
    return replace(
        data, train_x=train, test_x=test, source=f"{data.source}, pixels 0 to 1", content=""
    )


mnist_2nn_unit = replace(get_task("mnist_2nn"), name="mnist_2nn_unit", load=load_unit)
