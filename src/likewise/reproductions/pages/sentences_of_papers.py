"""Sentences that the pages of papers share, whatever they are written in."""

from __future__ import annotations

from collections.abc import Iterable

from likewise.data.readers import READERS
from likewise.reproductions.paper_item import PaperItem
from likewise.reproductions.reproduction import ItemResult, Reproduction
from likewise.wording import NONE, count_of, listed

ABOUT_VERDICTS = (
    "Confirmed: every difference that the claim asks for is there beyond the noise of seeds and test classes, all of them together at "
    "95 %. Contradicted: at least one is the other way round beyond noise. Open: it was run, and noise leaves it open. Not run: what it "
    "needs is not here. A claim that was judged in several places is confirmed where it is in some of them and contradicted in none, and "
    "mixed where it is confirmed in one and contradicted in another."
)
ABOUT_PARTS = (
    "Every training is scored after its last step; nothing is chosen by test classes. Settings are the papers', and those of their "
    "authors' code where it differs. What a paper has on data or networks that are not here (Stanford Online Products, Cars196, In-Shop; "
    "BN-Inception, GoogLeNet) is asked of what is: CUB-200-2011 with ResNet-50 or with heads on the features of a small network that "
    "stays as it is, Omniglot, MNIST. So a verdict says whether a claim holds under these conditions, and not whether the paper's figures "
    "were right under its own; each page names what differs."
)
ABOUT_CURVES = "The paper prints no numbers."
STAND_IN = (
    "A stand-in: these figures come from a few drawn characters and a few steps. They show that everything runs, and mean nothing else."
)


def item_label(item: PaperItem) -> str:
    """ "Table 3", "Figure 1", "Poster"."""
    kind, _, number = item.name.partition("/")[2].partition("-")
    return f"{kind.capitalize()} {number}".strip()


def as_sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def what_was_trained(results: Iterable[ItemResult]) -> str:
    """The networks, with the data that they were trained on, and whether any pretrained one was fine-tuned; empty where nothing was run."""
    found: dict[str, set[str]] = {}
    fine_tuned = False
    for result in results:
        for name, part in result.parts.items():
            protocol = part.protocol
            fine_tuned |= bool(part.weights) and not protocol.frozen
            how = (
                f"heads on frozen {protocol.backbone}"
                if protocol.frozen
                else protocol.backbone
                if part.weights
                else f"{protocol.backbone} from random weights"
            )
            found.setdefault(how, set()).add(READERS[result.item.part(name).data].about)
    if not found:
        return ""
    words = [f"{how} ({listed(sorted(data))})" for how, data in found.items()]
    return f"Trained here: {listed(words)}.{'' if fine_tuned else ' No pretrained network was fine-tuned.'}"


def published_number(value: float | None) -> str:
    """As the paper prints it, but for zeros at its end."""
    return NONE if value is None else f"{value:g}" if value != round(value, 1) else f"{value:.1f}"


def when_and_how(reproduction: Reproduction) -> list[str]:
    """Command, versions, time, and what is left to do."""
    versions = ", ".join(f"{name} {version}" for name, version in reproduction.versions.items())
    devices = dict.fromkeys(part.device for result in reproduction.items for part in result.parts.values())
    words = [reproduction.command, f"{versions}.", f"Written {reproduction.created[:16].replace('T', ' ')} UTC."]
    if reproduction.trainings_left:
        words.append(f"{count_of(reproduction.trainings_left, 'training is', 'trainings are')} left to do: the same command goes on.")
    if devices:
        words.append(f"Run on {', '.join(devices)}.")
    return words
