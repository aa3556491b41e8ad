"""The tasks that come with fedsim and the ways to split their data, as they are listed.

Listing needs no torch, which training does.
"""

from typing import Any, NamedTuple


class TaskEntry(NamedTuple):
    """Where a task lies (``module:NAME`` in ``fedsim.tasks``), its title, and its source.

    Title and source are the fields of that name of its ``Task``.
    """

    place: str
    title: str
    source: str


LISTED: dict[str, TaskEntry] = {
    "digits": TaskEntry(
        "digits:DIGITS",
        "scikit-learn's 8x8 digits, a small CNN (21,386 parameters)",
        "this project: a task that needs no download; settings chosen on seeds 0 to 14",
    ),
    "mnist_lenet5": TaskEntry(
        "mnist:MNIST_LENET5",
        "MNIST, LeNet5-Caffe (431,080 parameters)",
        "Sattler et al. 2018 (Sparse Binary Compression), Table III and supplement C",
    ),
    "mnist_lenet5_caffe": TaskEntry(
        "mnist:MNIST_LENET5_CAFFE",
        "MNIST, LeNet5-Caffe to the letter: ReLU after fc1 alone (431,080 parameters)",
        "Sattler et al. 2018 (Sparse Binary Compression), Table III and supplement C",
    ),
    "fashion_lenet5": TaskEntry(
        "mnist:FASHION_LENET5",
        "Fashion-MNIST, LeNet5-Caffe (431,080 parameters)",
        "data: Xiao et al. 2017 (Fashion-MNIST); model and settings as mnist_lenet5",
    ),
    "mnist_mlp4096": TaskEntry(
        "mnist:MNIST_MLP4096",
        "MNIST, three layers of 4096 units (36,818,954 parameters)",
        "Aji & Heafield 2017 (gradient dropping), section 5: AdaGrad 0.005, batch 40, 20 epochs",
    ),
    "mnist_mlp4096_ln": TaskEntry(
        "mnist:MNIST_MLP4096_LN",
        "MNIST, three layers of 4096 units, layer normalization (36,843,530 parameters)",
        "Aji & Heafield 2017 (gradient dropping), section 5: AdaGrad 0.005, batch 40, 20 epochs",
    ),
    "mnist_mlp512": TaskEntry(
        "mnist:MNIST_MLP512",
        "MNIST, three layers of 512 units (932,362 parameters)",
        "width chosen for short runs; else Aji & Heafield 2017, section 5",
    ),
    "mnist_mlp128_ln": TaskEntry(
        "mnist:MNIST_MLP128_LN",
        "MNIST, three layers of 128 units, layer normalization (135,562 parameters)",
        "width chosen for asynchronous runs on a CPU; else Aji & Heafield 2017, section 5",
    ),
    "mnist_mlp512_ln": TaskEntry(
        "mnist:MNIST_MLP512_LN",
        "MNIST, three layers of 512 units, layer normalization (935,434 parameters)",
        "width chosen for short runs; else Aji & Heafield 2017, section 5",
    ),
    "mnist_2nn": TaskEntry(
        "mnist:MNIST_2NN",
        "MNIST, two layers of 200 units (199,210 parameters)",
        "McMahan et al. 2017 (federated averaging), section 3 (2NN); the rate: chosen here",
    ),
    "mnist_cnn": TaskEntry(
        "mnist:MNIST_CNN",
        "MNIST, two 5x5 convolutions and a layer of 512 units (1,663,370 parameters)",
        "McMahan et al. 2017 (federated averaging), section 3 (CNN); the rate: chosen here",
    ),
    "cifar_resnet8": TaskEntry(
        "cifar_tasks:CIFAR_RESNET8",
        "CIFAR-10, ResNet-8 (75,290 parameters)",
        "He et al. 2016, section 4.2, with one block per stage; iterations and steps of the rate: "
        "chosen here, for a minute on two cores",
    ),
    "cifar_resnet20": TaskEntry(
        "cifar_tasks:CIFAR_RESNET20",
        "CIFAR-10, ResNet-20 (269,722 parameters)",
        "He et al. 2016, section 4.2: 128 images per iteration, here 4 x 32",
    ),
    "cifar_resnet32": TaskEntry(
        "cifar_tasks:CIFAR_RESNET32",
        "CIFAR-10, ResNet-32 (464,154 parameters)",
        "Sattler et al. 2018 (Sparse Binary Compression), Table III; weight decay as in the "
        "TensorFlow code that its supplement C names",
    ),
    "cifar_resnet44": TaskEntry(
        "cifar_tasks:CIFAR_RESNET44",
        "CIFAR-10, ResNet-44 (658,586 parameters)",
        "He et al. 2016, section 4.2: 128 images per iteration, here 4 x 32",
    ),
    "cifar_resnet56": TaskEntry(
        "cifar_tasks:CIFAR_RESNET56",
        "CIFAR-10, ResNet-56 (853,018 parameters)",
        "He et al. 2016, section 4.2: 128 images per iteration, here 4 x 32",
    ),
    "cifar_resnet110": TaskEntry(
        "cifar_tasks:CIFAR_RESNET110",
        "CIFAR-10, ResNet-110 (1,727,962 parameters)",
        "He et al. 2016, section 4.2: 128 images per iteration, here 4 x 32",
    ),
    "cifar_resnet18": TaskEntry(
        "cifar_tasks:CIFAR_RESNET18",
        "CIFAR-10, ResNet-18 with a 3x3 first layer (11,173,962 parameters)",
        "Horvath et al. 2022 (natural compression), Table 2; its settings are not in the "
        "text: chosen here",
    ),
    "cifar_vgg11": TaskEntry(
        "cifar_tasks:CIFAR_VGG11",
        "CIFAR-10, VGG-11 with BatchNorm (9,231,114 parameters)",
        "Horvath et al. 2022 (natural compression), Fig. 7 and 19; its settings are not in "
        "the text: chosen here",
    ),
    "cifar_vgg16": TaskEntry(
        "cifar_tasks:CIFAR_VGG16",
        "CIFAR-10, VGG-16 with BatchNorm (14,728,266 parameters)",
        "Gajjala et al. 2020 (Huffman coding), section 5: batch 160 per client, 0.5 after five "
        "epochs of exponential growth, 70 epochs; growth by two per epoch and plain SGD: "
        "chosen here",
    ),
    "cifar_alexnet": TaskEntry(
        "cifar_tasks:CIFAR_ALEXNET",
        "CIFAR-10, AlexNet of two convolutions with BatchNorm (1,756,682 parameters)",
        "Horvath et al. 2022 (natural compression), Fig. 5 and 14: batch 256; rate and steps "
        "of TensorFlow's benchmarks, 200 epochs",
    ),
    "cifar_densenet40": TaskEntry(
        "cifar_tasks:CIFAR_DENSENET40",
        "CIFAR-10, DenseNet40-K12 (357,491 parameters)",
        "DeepReduce 2021, Table 1; batch 64, rate and steps of Huang et al. 2017 and of "
        "TensorFlow's benchmarks, 300 epochs",
    ),
    "imagenet_resnet50": TaskEntry(
        "imagenet:IMAGENET_RESNET50",
        "ImageNet, torchvision's ResNet-50 (25,557,032 parameters)",
        "Sattler et al. 2018 (Sparse Binary Compression), Table III; weight decay of He et "
        "al. 2016",
    ),
    "char_lstm": TaskEntry(
        "chars:CHAR_LSTM",
        "Shakespeare by characters, LSTM 2 x 200 (675,284 parameters)",
        "Sattler et al. 2018 (Sparse Binary Compression), Table III and supplement C",
    ),
    "char_transformer": TaskEntry(
        "transformer:CHAR_TRANSFORMER",
        "Shakespeare by characters, a pre-trained transformer is fine-tuned (116,096 parameters)",
        "this project; decoder as in Radford et al. 2019 (GPT-2)",
    ),
    "char_transformer_fedit": TaskEntry(
        "transformer:CHAR_TRANSFORMER_FEDIT",
        "the same frozen, adapters of rank 4 (of 125,312 parameters 9,216 are trained)",
        "Zhang et al. 2023 (FedIT): A and B of LoRA (Hu et al. 2021) are averaged",
    ),
    "char_transformer_ffa": TaskEntry(
        "transformer:CHAR_TRANSFORMER_FFA",
        "the same frozen, half of each adapter (of 125,312 parameters 4,608 are trained)",
        "Sun et al. 2024 (FFA-LoRA): A of LoRA stays at its start, B is averaged",
    ),
    "word_lstm": TaskEntry(
        "words:WORD_LSTM",
        "WikiText-2 or the Penn Treebank, LSTM 2 x 650, 10,000 words (19,775,200 parameters)",
        "Sattler et al. 2018 (Sparse Binary Compression), Table III and supplement C",
    ),
    "ncf": TaskEntry(
        "ncf:NCF",
        "MovieLens, NeuMF (31,832,577 parameters on ml-20m)",
        "Kostopoulou et al. 2021 (DeepReduce), Table 1; He et al. 2017; NVIDIA's recipe",
    ),
}

OWN_TASK = "a task of your own is FILE.py:NAME"

PARTITIONS = (
    "iid", "contiguous", "whole", "natural", "feature", "linear", "square", "exponential",
    "dirichlet(ALPHA)", "shards(NUMBER)", "pathological(CLASSES)", "drawn(SAMPLES)",
    "drawn(SAMPLES, ALPHA)", "NAMEPartitioner(ARGUMENT=VALUE)", "FILE.csv", "FILE.py:FUNCTION",
    "fixed",
)  # fmt: skip
"""The ways to split a task's samples over clients (``fedsim.tasks.data.partition``)."""


def about(name: str) -> dict[str, Any]:
    """The fields of a task that are written here: its name, its title and its source.

    Example:
        >>> about("digits")["title"]
        "scikit-learn's 8x8 digits, a small CNN (21,386 parameters)"
    """
    return {"name": name, "title": LISTED[name].title, "source": LISTED[name].source}
