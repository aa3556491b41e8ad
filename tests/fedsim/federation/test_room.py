"""Data that lie on a device where they fit: the same batches; and what is said where it is full."""

import re
from dataclasses import replace

import pytest
import torch

from fedsim import Data
from fedsim.federation import device as memory
from fedsim.ground.errors import DeviceFull
from fedsim.tasks.data.images import CropAndFlip, Pixels

META = torch.device("meta")
X, Y = torch.arange(40.0).view(20, 2), torch.arange(20)
DATA = Data(X, Y, X[:4], Y[:4], "made up")  # 160 + 160 + 32 + 32 bytes


def free(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(memory, "free", lambda device: count)


def test_data_go_where_they_take_half_of_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 768)
    there = memory.place_data(DATA, META)
    parts = (there.train_x, there.train_y, there.test_x, there.test_y)
    assert all(isinstance(x, torch.Tensor) and x.device == META for x in parts)
    assert there.source == "made up" and DATA.train_y.device.type == "cpu"
    assert memory.looked_into(there) == META  # its batches index it
    free(monkeypatch, 767)
    assert memory.place_data(DATA, META) is DATA


def test_a_batch_is_looked_up_by_numbers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 1000)
    copy = memory.place_data(DATA, torch.device("cpu"))
    index = torch.tensor([3, 0, 19])
    first, other = (data.batch(index, torch.Generator()) for data in (DATA, copy))
    assert torch.equal(first[0], other[0]) and torch.equal(first[1], other[1])


class Lines:
    """Samples that are made on demand."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: torch.Tensor) -> torch.Tensor:
        return X[index]


def test_what_is_more_than_tensors_stays_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 1 << 30)
    for data in (
        replace(DATA, draw=lambda index, _: (X[index], Y[index])),
        replace(DATA, train_x=Lines()),
    ):
        assert memory.place_data(data, META) is data
        assert memory.looked_into(data) == torch.device("cpu")


def test_images_that_are_cropped_there_go_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """24 images of 3 x 4 x 4 bytes and their classes, for batches and for scores."""
    stored, y = torch.zeros(24, 3, 4, 4, dtype=torch.uint8), torch.arange(24)
    x = Pixels(stored, (0.5,) * 3, (0.2,) * 3)
    data = Data(x, y, x, y, "", draw=CropAndFlip(x, y))
    room = 2 * 2 * 2 * (24 * 48 + 24 * 8)
    free(monkeypatch, room)
    placed = memory.place_data(data, META)
    assert isinstance(placed.draw, CropAndFlip) and placed.draw.y.device == META
    assert memory.looked_into(placed) == memory.device_of(placed.test_x) == META
    assert memory.gathers(placed, META) and not memory.gathers(data, META)
    free(monkeypatch, room - 1)
    assert memory.place_data(data, META) is data


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 79.11 "
            "GiB of which 3.25 MiB is free.",
            "512.00 MiB more needed, 3.25 MiB free",
        ),
        ("Tried to allocate 1.00 GiB", "1.00 GiB more needed"),
        ("in other words", "its memory is full"),
    ],
)
def test_a_device_that_is_full_is_one_line(said: str, told: str) -> None:
    line = f"cuda:1: {told}; lower --stack, --workers, --batch-size"
    device = torch.device("cuda:1")
    with pytest.raises(DeviceFull, match=f"^{re.escape(line)}$"), memory.enough(device):
        raise torch.cuda.OutOfMemoryError(said)
