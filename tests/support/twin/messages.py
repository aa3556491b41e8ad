"""What a message says of a vector, and how many bits it has (docs/message.md)."""

from dataclasses import dataclass

import numpy as np

HEADER = 8 + 16  # version and fingerprint


@dataclass(frozen=True)
class Message:
    """What the receiver sees, which entries travelled, bits in all and without the header."""

    seen: np.ndarray
    sent: np.ndarray
    wire: int
    content: int
    sparse: bool = False


@dataclass(frozen=True)
class Method:
    """``raw`` (p is None) or ``topk(p) | float32 | bitmap``, and what stands around it."""

    around: str  # "", "ef", "ef21", "diana", "marina"
    p: float | None
    dense: float = 1.0  # marina: the probability of a dense round
    masks: bool = False  # ef: whether momentum is set to zero where entries are sent

    @property
    def takes_back(self) -> bool:
        """Whether its memory takes back what was not applied."""
        return self.around in ("ef", "ef21", "diana")

    @staticmethod
    def of(text: str, gradient: float | None) -> "Method":
        """A method as users type it."""
        text = text.replace("{p}", str(gradient)).replace(" ", "")
        masks = text.endswith(",mask=true)")
        text = text.replace(",mask=true)", ")")
        around, dense = "", 1.0
        for name in ("ef", "ef21", "diana", "marina"):
            if text.startswith(name + "("):
                around, text = name, text[len(name) + 1 : -1]
        if around == "marina":
            text, probability = text.rsplit(",", 1)
            dense = float(probability)
        p = float(text[len("topk(") : text.index(")")]) if text.startswith("topk(") else None
        return Method(around, p, dense, masks)

    def encode(self, x: np.ndarray, tensors: list[int], p: float | None = None) -> Message:
        """The message of a vector that is made of tensors of so many entries, at the fraction p."""
        header = HEADER + (self.around == "marina")  # one bit says whether the round is dense
        if self.p is None:
            content = 32 * len(x)
            return Message(x.copy(), np.ones(len(x), bool), whole(header + content), content)
        sent = np.zeros(len(x), bool)
        content, start = 0, 0
        for entries in tensors:
            part = x[start : start + entries]
            nominal = max(1, round((self.p if p is None else p) * entries))
            largest = np.argsort(-np.abs(part), kind="stable")[:nominal]
            places = [i for i in largest if part[i] != 0]  # a zero is never sent
            sent[start : start + entries][places] = True
            k = len(places)
            header += 1 if k == nominal else 1 + gamma(k + 1)
            content += (entries if k > 0 else 0) + 32 * k  # the bitmap, the values
            start += entries
        return Message(np.where(sent, x, 0.0), sent, whole(header + content), content, True)


def gamma(number: int) -> int:
    """Bits of Elias' gamma code."""
    return 2 * (number.bit_length() - 1) + 1


def whole(bits: int) -> int:
    """So many bits, and zeros to a whole byte."""
    return -(-bits // 8) * 8
