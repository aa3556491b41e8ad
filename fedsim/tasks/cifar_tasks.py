"""The CIFAR-10 tasks that are no ResNets of He et al., with what is published of their settings.

``CHOSEN`` marks settings that the paper at hand does not print. Batches are the published number
of images an iteration, shared by four clients.
"""

from dataclasses import replace
from functools import partial

from torch.optim import SGD

from fedsim.tasks import cifar_models as models
from fedsim.tasks.base import Task, correct, cross_entropy
from fedsim.tasks.cifar import load

CHOSEN = "its settings are not in the text: chosen here"

CIFAR_RESNET18 = Task(
    name="cifar_resnet18",
    title="CIFAR-10, ResNet-18 with a 3x3 first layer (11,173,962 parameters)",
    source=f"Horvath et al. 2022 (natural compression), Table 2; {CHOSEN}",
    build=models.resnet18,
    load=load,
    optimizer=partial(SGD, lr=0.1, momentum=0.9, weight_decay=5e-4),
    loss=cross_entropy,
    metric=correct,
    batch_size=32,
    iterations=78_000,  # 200 epochs
    lr_steps=((39_000, 0.1), (58_500, 0.01)),
)
CIFAR_VGG11 = replace(
    CIFAR_RESNET18,
    name="cifar_vgg11",
    title="CIFAR-10, VGG-11 with BatchNorm (9,231,114 parameters)",
    source=f"Horvath et al. 2022 (natural compression), Fig. 7 and 19; {CHOSEN}",
    build=partial(models.vgg, "A"),
    optimizer=partial(SGD, lr=0.05, momentum=0.9, weight_decay=5e-4),
)
_EPOCH = 78  # iterations of 4 x 160 images
CIFAR_VGG16 = replace(
    CIFAR_RESNET18,
    name="cifar_vgg16",
    title="CIFAR-10, VGG-16 with BatchNorm (14,728,266 parameters)",
    source="Gajjala et al. 2020 (Huffman coding), section 5: batch 160 a client, 0.5 after five "
    "epochs of exponential growth, 70 epochs; growth by two an epoch and plain SGD: chosen here",
    build=partial(models.vgg, "D"),
    optimizer=partial(SGD, lr=0.5),
    batch_size=160,
    iterations=70 * _EPOCH,
    lr_steps=tuple((epoch * _EPOCH, 2.0 ** (epoch - 5)) for epoch in range(6)),
)
CIFAR_ALEXNET = replace(
    CIFAR_RESNET18,
    name="cifar_alexnet",
    title="CIFAR-10, AlexNet of two convolutions with BatchNorm (1,756,682 parameters)",
    source="Horvath et al. 2022 (natural compression), Fig. 5 and 14: batch 256; rate and steps of "
    "TensorFlow's benchmarks, 200 epochs",
    build=models.alexnet,
    optimizer=partial(SGD, lr=0.1, momentum=0.9, weight_decay=4e-5),
    batch_size=64,
    iterations=39_000,
    lr_steps=((19_500, 0.1),),
)
CIFAR_DENSENET40 = replace(
    CIFAR_RESNET18,
    name="cifar_densenet40",
    title="CIFAR-10, DenseNet40-K12 (357,491 parameters)",
    source="DeepReduce 2021, Table 1; batch 64, rate and steps of Huang et al. 2017 and of "
    "TensorFlow's benchmarks, 300 epochs",
    build=models.densenet40,
    optimizer=partial(SGD, lr=0.1, momentum=0.9, weight_decay=1e-4),
    batch_size=16,
    iterations=234_300,
    lr_steps=((117_150, 0.1), (175_725, 0.01)),
)
CIFAR_TASKS = (CIFAR_RESNET18, CIFAR_VGG11, CIFAR_VGG16, CIFAR_ALEXNET, CIFAR_DENSENET40)
