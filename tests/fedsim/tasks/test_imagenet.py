"""ImageNet's folders: read when asked for, cropped from one generator, refused by name."""

import itertools
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fedsim import RunConfig, run
from fedsim.ground.errors import DataError
from fedsim.tasks import get_task, imagenet
from fedsim.tasks.imagenet import Files, RandomCrops, crop_box, load_imagenet

pytestmark = pytest.mark.skipif(find_spec("torchvision") is None, reason="needs torchvision")

SIZES = itertools.cycle([(300, 260), (256, 400), (90, 310)])  # one smaller than the crop


def write(path: Path, seed: int) -> None:
    from PIL import Image

    height, width = next(SIZES)
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randint(0, 256, (1, 3, 8, 8), generator=generator).float()
    image = nn.functional.interpolate(coarse, (height, width), mode="bilinear")
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image[0].to(torch.uint8).permute(1, 2, 0).numpy()).save(path, "JPEG")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three classes, four training images and one for validation in each."""
    seed = itertools.count()
    for name in ("n01", "n02", "n03"):
        for number in range(4):
            write(tmp_path / "imagenet" / "train" / name / f"{number}.JPEG", next(seed))
        write(tmp_path / "imagenet" / "val" / name / "0.JPEG", next(seed))
    return tmp_path


def test_nothing_is_read_before_it_is_asked_for(folder: Path) -> None:
    data = load_imagenet(folder)
    assert (len(data.train_x), len(data.test_x)) == (12, 3)
    assert data.train_y.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert data.source == "ImageNet folder, 12 training and 3 validation images, 3 classes"
    broken = folder / "imagenet" / "train" / "n02" / "1.JPEG"  # number 5
    broken.write_bytes(b"no image")
    assert data.train_x[torch.tensor([0, 11])].shape == (2, 3, 224, 224)
    assert data.test_x[0:2].shape == (2, 3, 224, 224)
    with pytest.raises(DataError, match=r"n02.1\.JPEG cannot be decoded"):
        data.train_x[torch.tensor([5])]


def test_evaluation_takes_the_middle(folder: Path) -> None:
    from PIL import Image
    from torchvision import transforms

    steps = [
        transforms.Resize(256),
        transforms.CenterCrop(224),
        transforms.ToTensor(),
        transforms.Normalize(imagenet._MEAN, imagenet._STD),
    ]
    data = load_imagenet(folder)
    assert isinstance(data.test_x, Files)
    for number, path in enumerate(data.test_x.paths):
        with Image.open(path) as image:
            expected = transforms.Compose(steps)(image.convert("RGB"))
        ours = data.test_x[torch.tensor([number])][0]
        assert (ours - expected).abs().mean() < 0.02  # one resizes tensors, the other images


def test_a_training_batch_follows_from_its_generator(folder: Path) -> None:
    data, index = load_imagenet(folder), torch.tensor([3, 8])
    assert isinstance(data.draw, RandomCrops)

    def batch(seed: int) -> tuple[Tensor, Tensor]:
        return data.batch(index, torch.Generator().manual_seed(seed))

    (first, y), (other, _), (third, _) = batch(1), batch(1), batch(2)
    assert first.shape == (2, 3, 224, 224) and first.dtype == torch.float32 and y.tolist() == [0, 2]
    assert torch.equal(first, other) and not torch.equal(first, third)


@pytest.mark.parametrize(("height", "width"), [(300, 500), (224, 224), (50, 400), (1, 1)])
def test_crops_lie_within(height: int, width: int) -> None:
    from torchvision.transforms import RandomResizedCrop

    generator = torch.Generator().manual_seed(0)
    areas = []
    for _ in range(500):
        top, left, h, w = crop_box(height, width, generator)
        assert h > 0 and w > 0 and 0 <= top <= height - h and 0 <= left <= width - w
        areas.append(h * w / (height * width))
        if min(height, width) > 200:
            assert 0.73 < w / h < 1.36
    if (height, width) == (300, 500):
        assert min(areas) < 0.1 and max(areas) > 0.7
        crops = RandomResizedCrop(224)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            image = torch.empty(3, height, width)
            theirs = [crops.get_params(image, crops.scale, crops.ratio) for _ in range(500)]
        mean = sum(h * w for _, _, h, w in theirs) / (500 * height * width)
        assert sum(areas) / 500 == pytest.approx(mean, abs=0.03)  # of one distribution


def test_what_is_no_imagenet_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDSIM_DATA", raising=False)
    empty = tmp_path / "empty"
    empty.mkdir()
    for where in (None, empty):
        with pytest.raises(DataError, match=r"\nPut train/CLASS"):
            load_imagenet(where)
    write(folder / "imagenet" / "train" / "n04" / "0.JPEG", 99)
    with pytest.raises(DataError, match="4 classes in train, 3 in val"):
        load_imagenet(folder)


@pytest.mark.slow
def test_a_few_rounds_on_the_cpu(folder: Path, tmp_path: Path) -> None:
    """It starts, trains, scores and counts; what it needs a GPU for is to finish."""
    config = RunConfig.of(
        task="imagenet_resnet50",
        method="sbc(0.001)",
        temporal=1,
        iterations=2,
        clients=2,
        batch_size=2,
        evaluate_every=2,
        test_samples=2,
        data=str(folder),
    )
    summary = run(config, tmp_path / "run").summary
    assert summary["parameters"] == 25_557_032 and summary["metric_name"] == "top1"
    assert summary["up_content_bits"] > 2 * 25_557 * 10  # k indices a round of 11.5 bits each
    statistics = get_task("imagenet_resnet50").model(None).state_dict()
    floats = sum(x.numel() for n, x in statistics.items() if "running" in n)
    assert summary["up_buffer_bits"] == 2 * (32 * floats + 24)
