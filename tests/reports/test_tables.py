"""The leaderboard in other programs and in the terminal."""

import csv
import math
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from likewise.comparison.gather import look_number
from likewise.comparison.plan import Extension
from likewise.comparison.results import ComparisonResults, Estimate, MethodResult
from likewise.data.ledger import CountedLook, Look
from likewise.evaluation.certainty.verdict import verdict
from likewise.reports.charts import rank_groups
from likewise.reports.drawing import method_lines
from likewise.reports.page import Shared, report_page
from likewise.reports.page.conditions_html import origin_section, time_section
from likewise.reports.page.differences_html import differences, signed
from likewise.reports.page.leaderboard_html import UNTUNED, leaderboard
from likewise.reports.sentences import (
    command_to_go_on,
    gain_in_words,
    headline,
    hits_in_words,
    look_in_words,
    noise_in_words,
    power_in_words,
    time_in_words,
)
from likewise.reports.tables import csv_table, latex_table, latex_text, markdown_table
from likewise.terminal.commands.comparison_command import closing_lines
from likewise.terminal.leaderboard import leaderboard_view

from .made_up import HOSTILE, made_up


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ComparisonResults:
    return made_up(tmp_path_factory.mktemp("vectors"), num_classes=8, hostile=True, sweep=True)


def test_csv_gives_every_number_back(results: ComparisonResults) -> None:
    rows = list(csv.DictReader(StringIO(csv_table(results))))
    assert len(rows) == len(results.methods)
    for row, method in zip(rows, results.methods, strict=True):
        assert (row["method"], row["title"], row["apart"]) == (method.name, method.title, method.apart)
        assert row["sweep dim"] == str(method.sweep.get("dim", ""))
        for name, estimate in method.scores.items():
            told = [row[f"{name} {part}"] for part in ("mean", "low", "high", "deviation")]
            assert [float(cell) if cell else None for cell in told] == [estimate.mean, estimate.low, estimate.high, estimate.deviation]
            assert estimate.low != estimate.high or estimate.low is None
        assert row["verdict"] == method.standing
        told = [row[name] for name in ("p_value", "difference_low", "difference_high", "chance_best")]
        known = [method.p_value, *(method.difference or (None, None)), method.chance_best]
        assert [float(cell) if cell else None for cell in told] == known
    assert {row["verdict"] for row in rows} >= {"leads", "within noise", "behind", ""}
    assert float(rows[0]["R@1 published"]) == pytest.approx(0.669)


def test_markdown_has_one_row_a_method_and_no_markup_from_names(results: ComparisonResults) -> None:
    text = markdown_table(results, [results.board("glyphs")])
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 * 2 + 5
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert "<script" not in text
    assert "| leads |" in text


def test_latex_is_balanced_and_escaped(results: ComparisonResults) -> None:
    text = latex_table(results, [results.board("glyphs")])
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 1 + 5
    assert len({len(re.findall(r"(?<!\\)&", row)) for row in rows}) == 1
    assert latex_text(HOSTILE[4]) == r"\$x\_1\$ \textbar{} \% \# \textasciitilde{} \textasciicircum{} *b*"
    assert latex_text("\\{") == r"\textbackslash{}\{"
    assert r"\textbf{" in rows[1]


def test_untuned_values_name_no_winner_anywhere(results: ComparisonResults) -> None:
    """The table stands, in its order, but nothing in it is called best, by words, marks or bold letters."""
    untuned = replace(results, num_trials=0, num_folds=0)
    board = untuned.board("glyphs")
    assert [method.name for method in board.methods] == [method.name for method in results.board("glyphs").methods]
    assert {board.standing(method) for method in board.methods} == {""}
    assert headline(board) == (
        "On glyphs untuned values were compared, so that no winner is named: the same command with --trials 3 and another --out tunes the "
        "learning rate of every method alike."
    )
    rows = list(csv.DictReader(StringIO(csv_table(untuned))))
    judged = ("verdict", "p_value", "difference_low", "difference_high", "chance_best")
    assert {row[name] for row in rows for name in judged} == {""}
    assert "| leads |" not in markdown_table(untuned, [board])
    assert power_in_words(board) == ""
    assert r"\textbf{" not in latex_table(untuned, [board])
    console = Console(record=True, width=120, file=StringIO())
    console.print(leaderboard_view(untuned))
    shown = console.export_text()
    assert "★" not in shown
    assert "≈" not in shown
    assert "untuned values were compared" in " ".join(shown.split())
    assert UNTUNED.strip() in leaderboard(board, method_lines([method.name for method in board.methods]))
    assert closing_lines(replace(untuned, best={"glyphs": Path("best")}))[1].startswith("first in the table: ")
    assert closing_lines(replace(results, best={"glyphs": Path("best")}))[1].startswith("best: ")


def test_which_look_it_is_stands_everywhere(results: ComparisonResults) -> None:
    before = Look(1, "2026-11-16T10:00:00+00:00", "compare", f"/runs/{HOSTILE[0]}", "", "glyphs", "a", 8, "x", "scores")
    now = CountedLook(replace(before, number=2), (before,))
    second = replace(results, looks={"glyphs": now})
    board = second.board("glyphs")
    words = "Second look at these test classes, after /runs/"
    assert look_in_words(second, board) == f"{words}{HOSTILE[0]} (2026-11-16)."
    assert {row["look"] for row in csv.DictReader(StringIO(csv_table(second)))} == {"2"}
    assert words in markdown_table(second, [board])
    assert "<script" not in markdown_table(second, [board])
    assert f"\n% {words}" in latex_table(second, [board])
    console = Console(width=200, record=True, file=StringIO())
    console.print(leaderboard_view(second))
    assert words in console.export_text()
    for told in (csv_table(results), markdown_table(results, [board]), latex_table(results, [board])):
        assert "look at these" not in told  # nobody counted
    assert {row["look"] for row in csv.DictReader(StringIO(csv_table(results)))} == {""}


def test_the_terminal_shows_the_board(results: ComparisonResults) -> None:
    console = Console(width=120, record=True, file=StringIO())
    console.print(leaderboard_view(results))
    text = console.export_text()
    lines = text.splitlines()
    best = next(line for line in lines if "★" in line)
    leader = results.board("glyphs").best
    assert leader is not None
    assert leader.title in best
    assert f"{100 * leader.scores['MAP@R'].mean:.2f}" in best
    assert "is listed apart" in text
    assert "[" not in best  # names are no markup


def test_a_narrow_terminal_gets_fewer_scores_but_whole_ones(results: ComparisonResults) -> None:
    for width, num_scores in ((64, 1), (80, 2), (120, 6), (200, 8)):
        console = Console(width=width, record=True, file=StringIO())
        console.print(leaderboard_view(results))
        text = console.export_text()
        head = text.splitlines()[1]
        assert sum(name in head.split() for name in results.methods[0].scores) == num_scores
        rows = text.splitlines()[2:6]
        assert not any("…" in row[width // 2 :] for row in rows)  # only a title may be cut
        assert all(len(row.rstrip()) <= width for row in rows)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> ComparisonResults:
    """Of 24 classes: the second within noise of the first, two behind."""
    return replace(made_up(tmp_path_factory.mktemp("usual")), folder=Path("/runs/x y"))


def test_the_headline_says_who_leads_who_is_within_noise_and_who_is_behind(usual: ComparisonResults) -> None:
    board = usual.board("glyphs")
    assert board.verdict is not None
    assert board.verdict.behind == ("proxy_nca", "lifted")
    words = "RAW + VTHM leads on glyphs: MAP@R 93.03 (87.5 to 98.2). Within noise of it: Ranked list. The other 2 methods are behind."
    assert headline(board) == words
    told, more = (f"{100 * lead:.1f} points" for lead in (board.verdict.detectable(3), board.verdict.next_look.detectable(10)))
    assert power_in_words(board).startswith(
        f"With 3 seeds a method a lead of {told} is told from this noise; with 10 seeds, at the second look, one of {more} would be."
    )
    alone = replace(board, equal=(board.equal[0], *board.equal[2:]))
    assert headline(alone).endswith("Every other method is behind it.")


def scored(results: ComparisonResults, name: str, mean: float, **changes: Any) -> MethodResult:
    """The first method with this R@1, and no interval."""
    method = results.board("glyphs").methods[0]
    return replace(method, name=name, scores={**method.scores, "R@1": Estimate((mean,), mean, None, None, None)}, **changes)


def test_the_first_hits_are_told_in_plain_words(usual: ComparisonResults) -> None:
    def told(*methods: MethodResult, **changes: Any) -> str:
        results = replace(usual, methods=methods, **changes)
        return hits_in_words(results, results.board("glyphs"))

    best, untrained = scored(usual, "raw_vthm", 0.964), scored(usual, "untrained", 0.937, apart="no training")
    words = "Of 100 images, 96 have one of their own class as the nearest with RAW + VTHM"
    assert told(best) == f"{words}."
    assert told(best, untrained) == f"{words}; without training 94 do."
    close = replace(untrained, scores=scored(usual, "untrained", 0.958).scores)  # to tell them apart takes more than 100 images
    many = {name: replace(items, labels=np.zeros(1000, np.int64)) for name, items in usual.items.items()}
    assert told(best, close, items=many) == (
        "Of 1,000 images, 964 have one of their own class as the nearest with RAW + VTHM; without training 958 do."
    )
    assert told(scored(usual, "raw_vthm", 0.997), items=many).startswith("Of 1,000 images, 997 have")
    # of no more than there were
    assert told(best, close).startswith("Of 240 test images, 231 have one")
    few = {name: replace(items, query=np.arange(24), thumbnails=None) for name, items in usual.items.items()}
    assert told(scored(usual, "raw_vthm", 1.0), items=few).startswith("Of 24 test items, 24 have one")
    assert told(best, items=few).startswith("Of 24 test items, 23 have one")
    assert told(untrained) == "Of 100 images, 94 have one of their own class as the nearest without any training."
    vectors = {name: replace(items, thumbnails=None) for name, items in usual.items.items()}
    assert told(best, items=vectors).startswith("Of 100 items, 96 have")
    assert told(best, scored(usual, "margin", 0.5, dataset="birds")).startswith("On glyphs, of 100 images, 96 have")
    assert told(scored(usual, "raw_vthm", math.nan)) == ""
    assert told(replace(best, scores={"MAP@R": best.scores["MAP@R"]})) == ""
    spread = replace(best, scores={**best.scores, "R@1": Estimate((0.5,), 0.5, None, 0.423, 0.577)})
    assert "50 (42 to 58) have one" in told(spread)


def test_an_untrained_network_that_nothing_trained_beats_is_said(usual: ComparisonResults) -> None:
    best = usual.board("glyphs").methods[0]
    untrained = replace(best, name="untrained", title="Untrained network", apart="no training", standing="")
    better, worse = (
        replace(untrained, scores=untrained.scores | {"MAP@R": Estimate((mean,), mean, None, None, None)}) for mean in (0.95, 0.5)
    )
    told = [gain_in_words(replace(usual, methods=(*usual.methods, start)).board("glyphs")) for start in (better, worse)]
    assert told[0] == ("Training does not pay here: untrained, the network has MAP@R 95.00, and RAW + VTHM, the best trained, MAP@R 93.03.")
    assert told[1] == ""


def test_vectors_are_not_called_images(usual: ComparisonResults) -> None:
    """Neither in the terminal nor on the page: they are to be used on vectors."""
    best = {"glyphs": Path("/runs/x y/best")}
    for_images = replace(usual, best=best)
    of_vectors = replace(for_images, items={name: replace(items, thumbnails=None) for name, items in usual.items.items()})
    told = ("likewise embed {} IMAGES --out vectors.npz", "likewise embed {} VECTORS.npz --out embedded.npz")
    for results, right, wrong in ((for_images, *told), (of_vectors, *reversed(told))):
        lines, page = closing_lines(results), report_page(Shared.of(results))
        assert "  " + right.format("'/runs/x y/best'") in lines
        assert right.format("best") in page
        assert wrong.format("best") not in page


def test_the_plain_words_stand_on_top_and_under_the_table(usual: ComparisonResults) -> None:
    words = hits_in_words(usual, usual.board("glyphs"))
    assert words
    page = report_page(Shared.of(usual))
    assert page.index(f'<p class="plain">{words}</p>') < page.index('<p class="headline">')
    console = Console(width=300, record=True, file=StringIO())
    console.print(leaderboard_view(usual))
    assert words in console.export_text()
    assert words in markdown_table(usual, usual.boards)


def test_a_second_look_of_a_comparison_is_judged_at_a_higher_level(tmp_path: Path) -> None:
    board = made_up(tmp_path, look=3).board("glyphs")
    assert board.verdict is not None
    says = "Judged at 99.17 %, as it is the third look of this comparison: all looks after the first together err at most 5 times in 100."
    assert headline(board).endswith(says)
    before = Look(1, "2026-11-16T10:00:00+00:00", "compare", "/runs/x", "", "glyphs", "a", 8, "x", "scores")
    elsewhere = replace(before, number=2, folder="/runs/y")
    assert look_number(CountedLook(before), 1) == 1
    assert look_number(CountedLook(replace(before, number=3), (before, elsewhere)), 1) == 2
    assert look_number(CountedLook(before), 5) == 5  # the ledger was lost


def test_one_seed_gives_the_sentence_instead_of_a_verdict(tmp_path: Path) -> None:
    results = replace(made_up(tmp_path, num_classes=8, num_seeds=1), folder=tmp_path)
    board = results.board("glyphs")
    assert "One seed cannot tell methods apart" in headline(board)
    assert "behind" not in headline(board)
    assert power_in_words(board) == ""
    assert "intervals hold the noise of the test classes alone" in noise_in_words(board)
    assert "One seed leaves NMI without an interval." in noise_in_words(board)
    assert command_to_go_on(results, board) == f"likewise compare glyphs --trials 6 --seeds 5 --out {tmp_path}"
    rows = list(csv.DictReader(StringIO(csv_table(results))))
    assert {row["NMI low"] for row in rows} == {row["NMI deviation"] for row in rows} == {row["p_value"] for row in rows} == {""}
    assert not {"best", "behind"} & {row["verdict"] for row in rows}


def test_what_is_equal_for_all_purposes_is_said_and_marked(tmp_path: Path) -> None:
    results = made_up(tmp_path, indifferent=0.25)
    board = results.board("glyphs")
    assert [method.standing for method in board.equal] == ["best", "equal for all purposes", "behind", "behind"]
    assert "RAW + VTHM is best on glyphs" in headline(board)
    assert "Equal to it for all purposes, which is to 25.0 points: Ranked list. The other 2 methods are behind." in headline(board)
    assert "| Ranked list | equal for all purposes |" in markdown_table(results, [board])
    assert r"}$^{=}$" in latex_table(results, [board])
    console = Console(width=120, record=True, file=StringIO())
    console.print(leaderboard_view(results))
    assert "=  Ranked list" in console.export_text()
    page = str(differences(results, board, method_lines([method.name for method in results.methods])))
    assert "<td>equal for all purposes</td>" in page
    assert "The shaded band is what does not matter: 25.0 points" in page
    assert command_to_go_on(replace(results, folder=tmp_path), board) == ""


def test_what_was_added_is_told_with_its_command(usual: ComparisonResults) -> None:
    extension = Extension("2026-11-16T10:00:00+00:00", "likewise compare --seeds 10 <b>", 10, ("margin",), 7)
    page = str(origin_section(replace(usual, extensions=(extension,))))
    assert page.index(usual.command.split(" --")[0]) < page.index("and on 2026-11-16 10:00, to add to it:")
    assert "likewise compare --seeds 10 &lt;b&gt;" in page


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/x/bin/likewise compare a --seeds 3 --jobs 2", "likewise compare a --jobs 2 --seeds 10 --out '/runs/x y'"),
        ("likewise compare a --out=b --seeds=3", "likewise compare a --seeds 10 --out '/runs/x y'"),
        ("/x/likewise/__main__.py compare 'a b'", "likewise compare 'a b' --seeds 10 --out '/runs/x y'"),
        ("script.py compare", "likewise.compare(..., seeds=10, out='/runs/x y')"),
        ("", "likewise.compare(..., seeds=10, out='/runs/x y')"),
    ],
)
def test_the_command_that_adds_seeds(tmp_path: Path, command: str, expected: str) -> None:
    results = replace(made_up(tmp_path, num_seeds=2), command=command, folder=Path("/runs/x y"))
    assert command_to_go_on(results, results.board("glyphs")) == expected


def test_more_seeds_are_not_asked_for_where_classes_are_what_is_few(tmp_path: Path) -> None:
    """Of 8 classes 10 seeds would tell hardly less than 3."""
    results = replace(made_up(tmp_path, num_classes=8), folder=tmp_path)
    board = results.board("glyphs")
    assert "within noise" in {method.standing for method in board.equal}
    assert command_to_go_on(results, board) == ""


def test_more_seeds_that_tell_no_smaller_lead_are_said_to(usual: ComparisonResults) -> None:
    """The next look is judged more strictly, which costs more than seeds gain where they hardly differ."""
    board, random = usual.board("glyphs"), np.random.default_rng(0)
    scores = {m.name: random.normal(0.5, 0.1, (1, 12)) + random.normal(0, 1e-4, (3, 12)) for m in board.equal}
    found = verdict(scores)
    assert found.next_look.detectable(10) > found.detectable(3)
    told = (
        f"With 3 seeds a method a lead of {100 * found.detectable(3):.1f} points is told from this noise; with 10 seeds, "
        "at the second look, no smaller one would be."
    )
    assert power_in_words(replace(board, verdict=found)).startswith(told)


def test_the_page_shows_every_difference(usual: ComparisonResults) -> None:
    board = usual.board("glyphs")
    assert board.verdict is not None
    page = str(differences(usual, board, method_lines([method.name for method in usual.methods])))
    for name, (low, high) in board.verdict.differences.items():
        assert f"{signed(low)} to {signed(high)}" in page, name
    told = sum(low > 0 for low, high in board.verdict.pairs.values())
    assert page.count('class="told"') == told
    assert 0 < told < len(board.verdict.pairs) == page.count(" less ") - 1  # once in the note


def test_time_is_told_by_the_clock_and_as_work(results: ComparisonResults) -> None:
    assert time_in_words(results) == "4.3 min by the clock, in which 2 jobs side by side did 8.0 min of work"
    page = str(time_section(results))
    assert "together, in 2 jobs side by side</th><td>8.3 min" in page
    assert "by the clock</th><td>4.3 min" in page


def test_groups_of_ranks_are_the_largest_runs_within_the_difference() -> None:
    assert rank_groups([1.0, 1.5, 2.2, 3.6], 1.3) == [(0, 2)]
    assert rank_groups([1.0, 2.0, 2.9, 4.5], 1.05) == [(0, 1), (1, 2)]
    assert rank_groups([1.0, 3.0], 1.0) == []
