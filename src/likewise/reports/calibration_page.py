"""A calibration as one page: what is promised in words, the ROC, what each threshold does, and whether probabilities come true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from likewise.evaluation.calibration import Calibration, Threshold
from likewise.reports.drawing import FAINT, METHOD_COLOURS, Chart, inline
from likewise.reports.markup import Markup, join, table, tag
from likewise.reports.page import framed
from likewise.wording import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RIGHT, WRONG = METHOD_COLOURS[2], METHOD_COLOURS[1]
LEAST_SHOWN = 1e-4  # of false accepts, whose axis is logarithmic
TICKS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


def calibration_page(calibration: Calibration, title: str) -> str:
    same = calibration.same
    charts = (
        Chart(
            "True matches kept against false accepts",
            lambda axis: _draw_roc(axis, calibration),
            f"true matches kept against false accepts; at the threshold {percent(same.kept.estimate)} % and {percent(same.observed)} %",
            "of pairs of items, every class and every pair of classes weighing the same; the point is the threshold",
        ),
        Chart(
            "What a threshold does",
            lambda axis: _draw_thresholds(axis, calibration),
            f"true matches kept and false accepts against the threshold, which is {same.value:.3f}",
            "the line is the threshold",
        ),
        Chart(
            "Do probabilities come true?",
            lambda axis: _draw_reliability(axis, calibration),
            "observed share of pairs of one class against the predicted probability, in bins",
            "at a prior of one half, on classes that the probability was not fitted on; on the diagonal they do",
        ),
    )
    shown = charts if calibration.reliability else charts[:2]
    figures = [
        tag(
            "figure",
            {},
            tag("figcaption", {}, tag("strong", {}, chart.title), " ", tag("small", {}, chart.note)),
            inline(chart, name=f"calibration-{number}"),
        )
        for number, chart in enumerate(shown)
    ]
    body = [
        tag("header", {}, tag("h1", {}, title), *(tag("p", {"class": "headline"}, _sentence(words)) for words in calibration.words[:1])),
        tag(
            "main",
            {},
            tag("section", {}, *(tag("p", {}, _sentence(words)) for words in calibration.words[1:])),
            tag("section", {}, tag("h2", {}, "Curves"), tag("div", {"class": "charts"}, *figures)),
            tag("section", {}, tag("h2", {}, "Thresholds"), _thresholds(calibration)),
        ),
        tag("footer", {}, "Made by likewise. This file needs no network: keep it, mail it, open it anywhere."),
    ]
    return framed(title, join(body), Markup(""))


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _thresholds(calibration: Calibration) -> Markup:
    rows = [("two items are of one class", calibration.same)]
    rows += [("", promise) for promise in calibration.promises if promise != calibration.same]
    rows += [("its class is in the gallery", calibration.known)] if calibration.known is not None else []
    heads = ("accepted as", "from", "false accepts here, %", "elsewhere, %", "true matches kept, %")
    return table({"class": "thresholds"}, heads, [(words, *_cells(threshold)) for words, threshold in rows])


def _cells(threshold: Threshold) -> tuple[str, ...]:
    asked, here = (f"{100 * rate:.3g}" for rate in (threshold.rate, threshold.observed))
    elsewhere = f"at most {asked}, promised" if threshold.is_promised else f"probably at most {asked}"
    kept, low, high = (percent(share, digits=1) for share in (threshold.kept.estimate, threshold.kept.low, threshold.kept.high))
    return f"{threshold.value:.3f}", here, elsewhere, f"{kept} ({low} to {high})"


def _draw_roc(axis: Axes, calibration: Calibration) -> None:
    points = [point for point in calibration.roc if point.false_accepts >= LEAST_SHOWN / 2]
    axis.plot([point.false_accepts for point in points], [point.kept for point in points], color=METHOD_COLOURS[0])
    axis.plot([max(calibration.same.observed, LEAST_SHOWN)], [calibration.same.kept.estimate], "o", color=METHOD_COLOURS[0])
    axis.set_xscale("log")
    axis.set_xlim(LEAST_SHOWN, 1)
    axis.set_xticks(TICKS, [f"{100 * tick:g} %" for tick in TICKS])
    axis.minorticks_off()
    axis.set_ylim(0, 1.02)
    axis.set_xlabel("false accepts")
    axis.set_ylabel("true matches kept")


def _draw_thresholds(axis: Axes, calibration: Calibration) -> None:
    at = [point.threshold for point in calibration.roc]
    axis.plot(at, [point.kept for point in calibration.roc], color=RIGHT, label="true matches kept")
    axis.plot(at, [point.false_accepts for point in calibration.roc], color=WRONG, linestyle="--", label="false accepts")
    axis.axvline(calibration.same.value, color=FAINT, linewidth=1)
    axis.set_ylim(0, 1.02)
    axis.set_xlabel("cosine similarity")
    axis.legend(loc="lower left", fontsize=8)  # where low thresholds keep everything, and nothing is drawn


def _draw_reliability(axis: Axes, calibration: Calibration) -> None:
    predicted, observed = ([getattr(shown, name) for shown in calibration.reliability] for name in ("predicted", "observed"))
    axis.plot([0, 1], [0, 1], color=FAINT, linewidth=1)
    axis.plot(predicted, observed, "o-", color=METHOD_COLOURS[0], markersize=4)
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1.02)
    axis.set_xlabel("predicted probability of one class")
    axis.set_ylabel("observed share")
