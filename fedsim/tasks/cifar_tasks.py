"""The CIFAR-10 tasks, with their published settings.

Each task's source in ``fedsim/tasks/tasklist.py`` names the settings that are not published and
were chosen here. Batches are the published number of images per iteration, shared by four clients.
"""

from dataclasses import replace
from functools import partial

from fedsim.tasks.base import Task, correct, cross_entropy
from fedsim.tasks.data.cifar import load_cifar
from fedsim.tasks.models import cifar as models
from fedsim.tasks.tasklist import about
from strategies.client_optimizers import SGD

# The settings of He et al. 2016, which papers that train these networks leave unsaid.
CIFAR_RESNET20 = Task(
    **about("cifar_resnet20"),
    build=partial(models.resnet, 20),
    load=load_cifar,
    optimizer=partial(SGD, lr=0.1, momentum=0.9, weight_decay=1e-4),
    loss=cross_entropy,
    metric=correct,
    batch_size=32,
    iterations=64_000,
    lr_steps=((32_000, 0.1), (48_000, 0.01)),
)
CIFAR_RESNET8 = replace(
    CIFAR_RESNET20,
    **about("cifar_resnet8"),
    build=partial(models.resnet, 8),
    iterations=500,
    lr_steps=((250, 0.3), (400, 0.03)),
)
CIFAR_RESNET44 = replace(
    CIFAR_RESNET20, **about("cifar_resnet44"), build=partial(models.resnet, 44)
)
CIFAR_RESNET56 = replace(
    CIFAR_RESNET20, **about("cifar_resnet56"), build=partial(models.resnet, 56)
)
CIFAR_RESNET110 = replace(
    CIFAR_RESNET20,
    **about("cifar_resnet110"),
    build=partial(models.resnet, 110),
    # 0.01 "until the training error is below 80 % (about 400 iterations)"
    lr_steps=((0, 0.1), (400, 1.0), *CIFAR_RESNET20.lr_steps),
)
CIFAR_RESNET32 = replace(
    CIFAR_RESNET20,
    **about("cifar_resnet32"),
    build=partial(models.resnet, 32),
    optimizer=partial(SGD, lr=0.01, momentum=0.9, weight_decay=2e-4),
    batch_size=128,
    iterations=60_000,
    lr_steps=((30_000, 0.1), (50_000, 0.01)),
)
CIFAR_RESNET18 = replace(
    CIFAR_RESNET20,
    **about("cifar_resnet18"),
    build=models.resnet18,
    optimizer=partial(SGD, lr=0.1, momentum=0.9, weight_decay=5e-4),
    iterations=78_000,  # 200 epochs
    lr_steps=((39_000, 0.1), (58_500, 0.01)),
)
CIFAR_VGG11 = replace(
    CIFAR_RESNET18,
    **about("cifar_vgg11"),
    build=partial(models.vgg, "A"),
    optimizer=partial(SGD, lr=0.05, momentum=0.9, weight_decay=5e-4),
)
_EPOCH = 78  # iterations of 4 x 160 images
CIFAR_VGG16 = replace(
    CIFAR_RESNET18,
    **about("cifar_vgg16"),
    build=partial(models.vgg, "D"),
    optimizer=partial(SGD, lr=0.5),
    batch_size=160,
    iterations=70 * _EPOCH,
    lr_steps=tuple((epoch * _EPOCH, 2.0 ** (epoch - 5)) for epoch in range(6)),
)
CIFAR_ALEXNET = replace(
    CIFAR_RESNET18,
    **about("cifar_alexnet"),
    build=models.alexnet,
    optimizer=partial(SGD, lr=0.1, momentum=0.9, weight_decay=4e-5),
    batch_size=64,
    iterations=39_000,
    lr_steps=((19_500, 0.1),),
)
CIFAR_DENSENET40 = replace(
    CIFAR_RESNET18,
    **about("cifar_densenet40"),
    build=models.densenet40,
    optimizer=partial(SGD, lr=0.1, momentum=0.9, weight_decay=1e-4),
    batch_size=16,
    iterations=234_300,
    lr_steps=((117_150, 0.1), (175_725, 0.01)),
)
