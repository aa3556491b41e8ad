"""The networks for CIFAR-10: (B, 3, 32, 32) -> logits, torchvision's where it has them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedsim.tasks.optional import torchvision


class Shortcut(nn.Module):
    """Option A: every second pixel, and zeros for the channels that are new; no parameters."""

    def __init__(self, new_channels: int) -> None:
        super().__init__()
        self.before = new_channels // 2
        self.after = new_channels - self.before

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C + new, H / 2, W / 2)."""
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.before, self.after))


def resnet(depth: int) -> nn.Module:
    """The ResNet of ``depth`` = 6 k + 2 layers: images (B, 3, 32, 32) -> logits (B, 10).

    A 3x3 convolution, three stages of k basic blocks (torchvision's) with 16, 32 and 64 channels,
    the mean over pixels, a linear layer. Convolutions have no bias and start as He et al. 2015 say.

    Source: He et al., "Deep Residual Learning for Image Recognition", 2016, section 4.2.

    Example:
        >>> sum(p.numel() for p in resnet(20).parameters())
        269722
    """
    block = torchvision("models.resnet", f"cifar_resnet{depth}").BasicBlock
    layers: list[nn.Module] = [
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
    ]
    before = 16
    for channels in (16, 32, 64):
        new = channels - before
        first = block(before, channels, 2, Shortcut(new)) if new else block(before, channels)
        blocks = [block(channels, channels) for _ in range((depth - 2) // 6 - 1)]
        layers.append(nn.Sequential(first, *blocks))
        before = channels
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
    return model


def resnet18() -> nn.Module:
    """torchvision's ResNet-18 for small images: 11,173,962 parameters.

    Its first convolution is 3x3 with stride 1 in place of 7x7 with stride 2, and there is no
    max-pooling after it: a 32x32 image would be 1x1 before the last stage. Everybody who trains it
    on CIFAR-10 does so.
    """
    model: nn.Module = torchvision("models", "cifar_resnet18").resnet18(num_classes=10)
    model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out")
    model.maxpool = nn.Identity()
    return model


def vgg(layers: str) -> nn.Module:
    """torchvision's VGG convolutions with BatchNorm, and one linear layer for 10 classes.

    Args:
        layers: torchvision's letter: "A" is VGG-11 (9,231,114 parameters), "D" VGG-16
            (14,728,266, as in Gajjala et al. 2020, Table 2).

    Convolutions start as in torchvision's VGG (He, fan out); biases at zero.
    """
    source = torchvision("models.vgg", "cifar_vgg")
    features: nn.Module = source.make_layers(source.cfgs[layers], batch_norm=True)
    for module in features.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            assert module.bias is not None
            nn.init.zeros_(module.bias)
    return nn.Sequential(features, nn.Flatten(), nn.Linear(512, 10))


def alexnet() -> nn.Module:
    """The "AlexNet" for CIFAR-10 of TensorFlow's benchmarks, with BatchNorm: 1,756,682 parameters.

    Two convolutions of 64 channels, 5x5, each with 3x3 max-pooling, layers of 384 and 192 units.
    Horvath et al. 2022 print no layers; they say "Batch Normalization and no Dropout", so that
    BatchNorm replaces that code's local response normalization. (torchvision's AlexNet takes no
    image of 32x32.)
    """
    return nn.Sequential(
        nn.Conv2d(3, 64, 5, padding=2),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1),
        nn.Conv2d(64, 64, 5, padding=2),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1),
        nn.Flatten(),
        nn.Linear(64 * 8 * 8, 384),
        nn.ReLU(inplace=True),
        nn.Linear(384, 192),
        nn.ReLU(inplace=True),
        nn.Linear(192, 10),
    )


class DenseLayer(nn.Module):
    """BatchNorm, ReLU, 3x3 convolution; its channels are put behind those that came in."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, growth, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C + growth, H, W)."""
        return torch.cat([x, self.conv(self.norm(x).relu())], dim=1)


def densenet40() -> nn.Module:
    """DenseNet40-K12 as DeepReduce counts it: 357,491 parameters, 11 logits.

    Three blocks of 12 layers, growth 12. Huang et al. 2017 have 1,059,298 parameters; the count in
    DeepReduce's Table 1 is that of ``densenet40_k12`` in TensorFlow's benchmarks, which differs
    in three ways, all kept here: transitions leave 24 channels (that code forgets how many there
    were), convolutions have biases, and there is an eleventh class that no image is of.
    """
    growth, channels = 12, 16
    layers: list[nn.Module] = [nn.Conv2d(3, channels, 3, padding=1)]
    for block in range(3):
        if block:
            layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
            layers += [nn.Conv2d(channels, 2 * growth, 1), nn.ReLU(), nn.AvgPool2d(2)]
            channels = 2 * growth
        for _ in range(12):
            layers.append(DenseLayer(channels, growth))
            channels += growth
    layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels, 11))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out")
            assert module.bias is not None
            nn.init.zeros_(module.bias)
    return model
