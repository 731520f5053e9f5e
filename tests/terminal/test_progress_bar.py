import io

from rich.console import Console

from likewise.terminal.progress_bar import progress_bar


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)


def drawn(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def is_drawn(bar: object) -> bool:
    return bool(bar._rich.live.is_started)  # type: ignore[attr-defined]


def test_what_is_under_way_and_how_far() -> None:
    console = terminal()
    with progress_bar(console) as on_progress:
        assert on_progress is not None
        on_progress("packing [b]birds", 1_500, 6_000)
        assert "packing [b]birds" in drawn(console)  # a name is no markup
        assert "1,500/6,000" in drawn(console)
        on_progress("packing [b]birds", 6_000, 6_000)
        on_progress("k-means", 0, 0)
    shown = drawn(console).split("packing [b]birds")[-1]
    assert "k-means" in shown
    assert "0/0" not in shown  # nobody knows how far it is


def test_it_steps_aside_when_all_is_done() -> None:
    """Another bar, such as a training's, can be drawn while this one waits for its next work; rich allows one at a time."""
    console = terminal()
    with progress_bar(console) as on_progress:
        assert on_progress is not None
        on_progress("packing", 1, 2)
        assert is_drawn(on_progress)
        on_progress("packing", 2, 2)
        assert not is_drawn(on_progress)
        on_progress("waiting", 0, 0)
        assert is_drawn(on_progress)
        on_progress("waiting", 1, 1)
        assert not is_drawn(on_progress)
        with progress_bar(console) as other:
            assert other is not None
            other("training", 1, 2)
        on_progress("packing", 1, 2)  # the same again: the test images
        assert drawn(console).count("1/2") >= 3


def test_where_nobody_looks_nothing_is_told() -> None:
    with progress_bar(Console(file=io.StringIO())) as on_progress:
        assert on_progress is None
