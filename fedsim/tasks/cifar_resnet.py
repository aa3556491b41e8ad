"""The ResNets for CIFAR-10 of He et al. 2016, with 20 to 110 layers."""

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from fedsim.tasks.base import Task, correct, cross_entropy
from fedsim.tasks.data.cifar import load
from fedsim.tasks.optional import torchvision
from fedsim.tasks.tasklist import about


class Shortcut(nn.Module):
    """Option A: every second pixel, and zeros for the channels that are new; no parameters."""

    def __init__(self, new_channels: int) -> None:
        super().__init__()
        self.before = new_channels // 2
        self.after = new_channels - self.before

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C + new, H / 2, W / 2)."""
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.before, self.after))


def cifar_resnet(depth: int) -> nn.Module:
    """The ResNet of ``depth`` = 6 k + 2 layers: images (B, 3, 32, 32) -> logits (B, 10).

    A 3x3 convolution, three stages of k basic blocks (torchvision's) with 16, 32 and 64 channels,
    the mean over pixels, a linear layer. Convolutions have no bias and start as He et al. 2015 say.

    Raises:
        DataError: torchvision is missing.

    Source: He et al., "Deep Residual Learning for Image Recognition", 2016, section 4.2.

    Example:
        >>> sum(p.numel() for p in cifar_resnet(20).parameters())
        269722
    """
    block = torchvision("models.resnet", f"cifar_resnet{depth}").BasicBlock
    layers: list[nn.Module] = [
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)
    ]  # fmt: skip
    before = 16
    for channels in (16, 32, 64):
        new = channels - before
        first = block(before, channels, 2, Shortcut(new)) if new else block(before, channels)
        rest = [block(channels, channels) for _ in range((depth - 2) // 6 - 1)]
        layers.append(nn.Sequential(first, *rest))
        before = channels
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
    return model


def _he(depth: int, lr_steps: tuple[tuple[int, float], ...]) -> Task:
    """The settings of He et al. 2016, which papers that train these networks leave unsaid."""
    return Task(
        **about(f"cifar_resnet{depth}"),
        build=partial(cifar_resnet, depth),
        load=load,
        optimizer=partial(SGD, lr=0.1, momentum=0.9, weight_decay=1e-4),
        loss=cross_entropy,
        metric=correct,
        batch_size=32,
        iterations=64_000,
        lr_steps=lr_steps,
    )


_STEPS = ((32_000, 0.1), (48_000, 0.01))
CIFAR_RESNET20 = _he(20, _STEPS)
CIFAR_RESNET44 = _he(44, _STEPS)
CIFAR_RESNET56 = _he(56, _STEPS)
# 0.01 "until the training error is below 80 % (about 400 iterations)"
CIFAR_RESNET110 = _he(110, ((0, 0.1), (400, 1.0), *_STEPS))
CIFAR_RESNET32 = Task(
    **about("cifar_resnet32"),
    build=partial(cifar_resnet, 32),
    load=load,
    optimizer=partial(SGD, lr=0.01, momentum=0.9, weight_decay=2e-4),
    loss=cross_entropy,
    metric=correct,
    batch_size=128,
    iterations=60_000,
    lr_steps=((30_000, 0.1), (50_000, 0.01)),
)
