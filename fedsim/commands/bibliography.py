"""The papers behind the methods of the catalogue, as BibTeX."""

import re
from typing import NamedTuple
from unicodedata import normalize


class Paper(NamedTuple):
    """The text of a reference without its year.

    Attributes:
        authors: as BibTeX has them.
        title: of the paper.
        place: its proceedings, journal or institution; empty: a preprint.
        arxiv: its number there; empty: it is not there, or we do not know it.
        kind: the entry's.
    """

    authors: str
    title: str
    place: str = ""
    arxiv: str = ""
    kind: str = "inproceedings"


_PLACES = {"inproceedings": "booktitle", "article": "journal", "techreport": "institution"}
_NAME = re.compile(r"(.+?) (\d{4})")

PAPERS = {
    "Sattler et al. 2018": Paper(
        "Sattler, Felix and Wiedemann, Simon and Müller, Klaus-Robert and Samek, Wojciech",
        "Sparse Binary Compression: Towards Distributed Deep Learning with minimal Communication",
        arxiv="1805.08768"),
    "Sattler et al. 2020": Paper(
        "Sattler, Felix and Wiedemann, Simon and Müller, Klaus-Robert and Samek, Wojciech",
        "Robust and Communication-Efficient Federated Learning from Non-i.i.d. Data",
        "IEEE Transactions on Neural Networks and Learning Systems", "1903.02891", "article"),
    "Aji & Heafield 2017": Paper(
        "Aji, Alham Fikri and Heafield, Kenneth",
        "Sparse Communication for Distributed Gradient Descent",
        "Proceedings of the 2017 Conference on Empirical Methods in Natural Language Processing",
        "1704.05021"),
    "Karimireddy et al. 2019": Paper(
        "Karimireddy, Sai Praneeth and Rebjock, Quentin and Stich, Sebastian U. and Jaggi, Martin",
        "Error Feedback Fixes SignSGD and other Gradient Compression Schemes", "ICML",
        "1901.09847"),
    "Vogels et al. 2019": Paper(
        "Vogels, Thijs and Karimireddy, Sai Praneeth and Jaggi, Martin",
        "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization",
        "NeurIPS", "1905.13727"),
    "Konečný et al. 2016": Paper(
        "Konečný, Jakub and McMahan, H. Brendan and Yu, Felix X. and Richtárik, Peter and "
        "Suresh, Ananda Theertha and Bacon, Dave",
        "Federated Learning: Strategies for Improving Communication Efficiency",
        arxiv="1610.05492"),
    "Basu et al. 2019": Paper(
        "Basu, Debraj and Data, Deepesh and Karakus, Can and Diggavi, Suhas",
        "Qsparse-local-SGD: Distributed SGD with Quantization, Sparsification, and Local "
        "Computations", "NeurIPS", "1906.02367"),
    "Horváth et al. 2022": Paper(
        "Horváth, Samuel and Ho, Chen-Yu and Horváth, Ľudovít and Sahu, Atal Narayan and "
        "Canini, Marco and Richtárik, Peter",
        "Natural Compression for Distributed Deep Learning",
        "Mathematical and Scientific Machine Learning (MSML)", "1905.10988"),
    "Lin et al. 2018": Paper(
        "Lin, Yujun and Han, Song and Mao, Huizi and Wang, Yu and Dally, William J.",
        "Deep Gradient Compression: Reducing the Communication Bandwidth for Distributed Training",
        "ICLR", "1712.01887"),
    "Dryden et al. 2016": Paper(
        "Dryden, Nikoli and Moon, Tim and Jacobs, Sam Ade and Van Essen, Brian",
        "Communication Quantization for Data-Parallel Training of Deep Neural Networks",
        "Workshop on Machine Learning in HPC Environments (MLHPC)"),
    "Bonawitz et al. 2017": Paper(
        "Bonawitz, Keith and Ivanov, Vladimir and Kreuter, Ben and Marcedone, Antonio and "
        "McMahan, H. Brendan and Patel, Sarvar and Ramage, Daniel and Segal, Aaron and Seth, Karn",
        "Practical Secure Aggregation for Privacy-Preserving Machine Learning", "CCS"),
    "Douillard et al. 2025": Paper(
        "Douillard, Arthur and Donchev, Yanislav and Rush, Keith and Kale, Satyen and "
        "Charles, Zachary and others",
        "Streaming DiLoCo with overlapping communication: Towards a Distributed Free Lunch",
        arxiv="2501.18512"),
    "Strom 2015": Paper(
        "Strom, Nikko",
        "Scalable Distributed DNN Training Using Commodity GPU Cloud Computing", "Interspeech"),
    "Fei et al. 2020": Paper(
        "Fei, Jiawei and Ho, Chen-Yu and Sahu, Atal Narayan and Canini, Marco and Sapio, Amedeo",
        "Efficient Sparse Collective Communication and its application to Accelerate Distributed "
        "Deep Learning", "KAUST", kind="techreport"),
    "Stich et al. 2018": Paper(
        "Stich, Sebastian U. and Cordonnier, Jean-Baptiste and Jaggi, Martin",
        "Sparsified SGD with Memory", "NeurIPS", "1809.07599"),
    "Wangni et al. 2018": Paper(
        "Wangni, Jianqiao and Wang, Jialei and Liu, Ji and Zhang, Tong",
        "Gradient Sparsification for Communication-Efficient Distributed Optimization", "NeurIPS",
        "1710.09854"),
    "Barnes et al. 2020": Paper(
        "Barnes, Leighton Pate and Inan, Huseyin A. and Isik, Berivan and Özgür, Ayfer",
        "rTop-k: A Statistical Estimation Approach to Distributed SGD", arxiv="2005.10761"),
    "Elibol et al. 2020": Paper(
        "Elibol, Melih and Lei, Lihua and Jordan, Michael I.",
        "Variance Reduction with Sparse Gradients", "ICLR", "2001.09623"),
    "Alistarh et al. 2017": Paper(
        "Alistarh, Dan and Grubic, Demjan and Li, Jerry and Tomioka, Ryota and Vojnovic, Milan",
        "QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding", "NIPS",
        "1610.02132"),
    "Wen et al. 2017": Paper(
        "Wen, Wei and Xu, Cong and Yan, Feng and Wu, Chunpeng and Wang, Yandan and Chen, Yiran and "
        "Li, Hai",
        "TernGrad: Ternary Gradients to Reduce Communication in Distributed Deep Learning", "NIPS",
        "1705.07878"),
    "Gajjala et al. 2020": Paper(
        "Gajjala, Rishikesh R. and Banchhor, Shashwat and Abdelmoniem, Ahmed M. and "
        "Dutta, Aritra and Canini, Marco and Kalnis, Panos",
        "Huffman Coding Based Encoding Techniques for Fast Distributed Deep Learning",
        "Workshop on Distributed Machine Learning (DistributedML)"),
    "Bernstein et al. 2018": Paper(
        "Bernstein, Jeremy and Wang, Yu-Xiang and Azizzadenesheli, Kamyar and "
        "Anandkumar, Animashree",
        "signSGD: Compressed Optimisation for Non-Convex Problems", "ICML", "1802.04434"),
    "Seide et al. 2014": Paper(
        "Seide, Frank and Fu, Hao and Droppo, Jasha and Li, Gang and Yu, Dong",
        "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed "
        "Training of Speech DNNs", "Interspeech"),
    "Jiang et al. 2018": Paper(
        "Jiang, Jiawei and Fu, Fangcheng and Yang, Tong and Cui, Bin",
        "SketchML: Accelerating Distributed Machine Learning with Data Sketches", "SIGMOD"),
    "Jiang et al. 2020": Paper(
        "Jiang, Jiawei and Fu, Fangcheng and Yang, Tong and Shao, Yingxia and Cui, Bin",
        "SKCompress: compressing sparse and nonuniform gradient in distributed machine learning",
        "The VLDB Journal", kind="article"),
    "Kostopoulou et al. 2021": Paper(
        "Kostopoulou, Kelly and Xu, Hang and Dutta, Aritra and Li, Xin and Ntoulas, Alexandros and "
        "Kalnis, Panos",
        "DeepReduce: A Sparse-tensor Communication Framework for Distributed Deep Learning",
        arxiv="2102.03112"),
    "Lim et al. 2019": Paper(
        "Lim, Hyeontaek and Andersen, David G. and Kaminsky, Michael",
        "3LC: Lightweight and Effective Traffic Compression for Distributed Machine Learning",
        "MLSys", "1802.07389"),
    "Vargaftik et al. 2021": Paper(
        "Vargaftik, Shay and Ben-Basat, Ran and Portnoy, Amit and Mendelson, Gal and "
        "Ben-Itzhak, Yaniv and Mitzenmacher, Michael",
        "DRIVE: One-bit Distributed Mean Estimation", "NeurIPS", "2105.08339"),
    "Vargaftik et al. 2022": Paper(
        "Vargaftik, Shay and Ben-Basat, Ran and Portnoy, Amit and Mendelson, Gal and "
        "Ben-Itzhak, Yaniv and Mitzenmacher, Michael",
        "EDEN: Communication-Efficient and Robust Distributed Mean Estimation for Federated "
        "Learning", "ICML", "2108.08842"),
    "Reisizadeh et al. 2020": Paper(
        "Reisizadeh, Amirhossein and Mokhtari, Aryan and Hassani, Hamed and Jadbabaie, Ali and "
        "Pedarsani, Ramtin",
        "FedPAQ: A Communication-Efficient Federated Learning Method with Periodic Averaging and "
        "Quantization", "AISTATS", "1909.13014"),
    "Sarfi et al. 2025": Paper(
        "Sarfi, Amir and Thérien, Benjamin and Lidin, Joel and Belilovsky, Eugene",
        "Communication Efficient LLM Pre-training with SparseLoCo", arxiv="2508.15706"),
    "Wang et al. 2023": Paper(
        "Wang, Jue and Lu, Yucheng and Yuan, Binhang and Chen, Beidi and Liang, Percy and "
        "De Sa, Christopher and Re, Christopher and Zhang, Ce",
        "CocktailSGD: Fine-tuning Foundation Models over 500Mbps Networks", "ICML"),
    "Peng et al. 2024": Paper(
        "Peng, Bowen and Quesnelle, Jeffrey and Kingma, Diederik P.",
        "DeMo: Decoupled Momentum Optimization", arxiv="2411.19870"),
    "Richtárik et al. 2021": Paper(
        "Richtárik, Peter and Sokolov, Igor and Fatkhullin, Ilyas",
        "EF21: A New, Simpler, Theoretically Better, and Practically Faster Error Feedback",
        "NeurIPS", "2106.05203"),
    "Mishchenko et al. 2019": Paper(
        "Mishchenko, Konstantin and Gorbunov, Eduard and Takáč, Martin and Richtárik, Peter",
        "Distributed Learning with Compressed Gradient Differences", arxiv="1901.09269"),
    "Gorbunov et al. 2021": Paper(
        "Gorbunov, Eduard and Burlachenko, Konstantin and Li, Zhize and Richtárik, Peter",
        "MARINA: Faster Non-Convex Distributed Learning with Compression", "ICML", "2102.07845"),
    "Charikar et al. 2002": Paper(
        "Charikar, Moses and Chen, Kevin and Farach-Colton, Martin",
        "Finding Frequent Items in Data Streams", "ICALP"),
    "Rothchild et al. 2020": Paper(
        "Rothchild, Daniel and Panda, Ashwinee and Ullah, Enayat and Ivkin, Nikita and "
        "Stoica, Ion and Braverman, Vladimir and Gonzalez, Joseph and Arora, Raman",
        "FetchSGD: Communication-Efficient Federated Learning with Sketching", "ICML",
        "2007.07682"),
    "Micikevicius et al. 2022": Paper(
        "Micikevicius, Paulius and others", "FP8 Formats for Deep Learning", arxiv="2209.05433"),
    "Rouhani et al. 2023": Paper(
        "Rouhani, Bita Darvish and others", "Microscaling Data Formats for Deep Learning",
        arxiv="2310.10537"),
    "Shlezinger et al. 2021": Paper(
        "Shlezinger, Nir and Chen, Mingzhe and Eldar, Yonina C. and Poor, H. Vincent and "
        "Cui, Shuguang",
        "UVeQFed: Universal Vector Quantization for Federated Learning",
        "IEEE Transactions on Signal Processing", "2006.03262", "article"),
    "Szlendak et al. 2021": Paper(
        "Szlendak, Rafał and Tyurin, Alexander and Richtárik, Peter",
        "Permutation Compressors for Provably Faster Distributed Nonconvex Optimization",
        arxiv="2110.03300"),
    "Rostami & Kia 2024": Paper(
        "Rostami, M. and Kia, S. S.", "FedScalar: A Communication efficient Federated Learning",
        arxiv="2410.02260"),
}  # fmt: skip
"""By the name and the year that a row's source begins with."""


def bibtex(source: str) -> str | None:
    """The entries of the papers that a row's source names; None where it names none.

    Example:
        >>> print(bibtex("Strom 2015"))
        @inproceedings{strom2015,
          author = {Strom, Nikko},
          title = {{Scalable Distributed DNN Training Using Commodity GPU Cloud Computing}},
          booktitle = {Interspeech},
          year = {2015},
        }
        >>> bibtex("reference") is None
        True
    """
    entries = []
    for part in source.split("; "):
        named = _NAME.match(part)
        if named is None or (paper := PAPERS.get(named[0])) is None:
            continue
        fields = {"author": paper.authors, "title": f"{{{paper.title}}}"}
        if paper.place:
            fields[_PLACES[paper.kind]] = paper.place
        if paper.arxiv:
            fields |= {"eprint": paper.arxiv, "archivePrefix": "arXiv"}
        fields["year"] = named[2]
        # A key is of ASCII letters: BibTeX sorts and finds no others everywhere.
        first = normalize("NFKD", paper.authors.partition(",")[0]).encode("ascii", "ignore")
        key = f"{first.decode().lower()}{named[2]}"
        lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
        kind = paper.kind if paper.place else "misc"
        entries.append("\n".join([f"@{kind}{{{key},", *lines, "}"]))
    return "\n\n".join(entries) or None
