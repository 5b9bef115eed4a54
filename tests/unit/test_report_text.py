"""What people read: plans, hosts, status, facts; narrow, wide, plain and coloured."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from reconciler.model.plan import ActionKind, Order, Plan
from reconciler.report.facts import facts_text
from reconciler.report.hosts import hosts_text
from reconciler.report.lines import Page, Span, Style, cells, safe
from reconciler.report.names import since_name
from reconciler.report.status import status_text
from reconciler.report.text import plan_text, summary_line
from tests.fakes import report_samples as sample
from tests.fakes.golden import check

VIEWS = ("plan", "hosts", "status", "facts")


def render(view: str, width: int | None, *, color: bool = False, wide: bool = False) -> str:
    """One view of the sample fleet."""
    match view:
        case "plan":
            return plan_text(sample.PLAN, sample.SNAPSHOT, width=width, color=color, wide=wide)
        case "hosts":
            return hosts_text(sample.SNAPSHOT, width=width, color=color, wide=wide)
        case "status":
            return status_text(
                sample.PLAN, sample.SNAPSHOT, lambda _host, _one: True, width=width, color=color, wide=wide
            )
        case _:
            return facts_text(sample.FACTS, width=width, color=color)


WIDTHS = {"80": (80, False), "200-wide": (200, True), "pipe": (None, False)}


@pytest.mark.parametrize("shape", WIDTHS)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_reads_as_it_was_agreed(view: str, shape: str) -> None:
    """Texts that a person has read; a change of a word shows here."""
    width, wide = WIDTHS[shape]
    check(f"{view}-{shape}.txt", render(view, width, wide=wide))


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("view", VIEWS)
def test_no_line_is_wider_than_the_terminal(view: str, width: int) -> None:
    """From 80 columns on; words are never cut, so that a table may need more than 60."""
    text = render(view, width)
    long = [line for line in text.splitlines() if cells(line) > width]
    assert long == []


@pytest.mark.parametrize("view", VIEWS)
def test_colour_changes_no_character(view: str) -> None:
    """Without its escape codes the coloured text is the plain one; words from outside stay text, never markup."""
    colored = render(view, 80, color=True)
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render(view, 80)


@pytest.mark.parametrize("view", VIEWS)
def test_the_same_input_gives_the_same_text(view: str) -> None:
    """No time, no random order."""
    assert len({render(view, 80, wide=True) for _ in range(3)}) == 1


def test_plain_text_needs_neither_rich_nor_deepdiff() -> None:
    """What a pipe pays for: a plan without nested changes imports none of the two."""
    code = (
        "import sys\n"
        "from reconciler.report.text import plan_text\n"
        "from tests.fakes import report_samples as sample\n"
        "from dataclasses import replace\n"
        "plan_text(replace(sample.PLAN, actions=(sample.START, sample.UPDATE)), sample.SNAPSHOT,"
        " width=80, color=False, wide=True)\n"
        "print(sorted({'rich', 'deepdiff', 'sqlite3', 'docker', 'git'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        (sample.PLAN, "Plan: 2 to start, 2 to replace, 1 to update, 2 to stop, 2 pending, 5 unchanged."),
        (
            replace(sample.PLAN, actions=(sample.START,), pending=()),
            "Plan: 1 to start, 0 to replace, 0 to update, 0 to stop, 0 pending, 5 unchanged.",
        ),
        (replace(sample.PLAN, actions=()), "No changes."),
        (sample.EMPTY, "No changes."),
    ],
)
def test_a_plan_ends_in_its_summary(plan: Plan, line: str) -> None:
    """Pending work alone is no change."""
    assert summary_line(plan) == line
    text = plan_text(plan, sample.SNAPSHOT, width=None, color=False, wide=False)
    assert text.endswith(f"\n{line}\n")


@pytest.mark.parametrize(
    ("kind", "order", "symbol"),
    [
        (ActionKind.START, None, "+"),
        (ActionKind.STOP, None, "-"),
        (ActionKind.UPDATE, None, "~"),
        (ActionKind.REPLACE, Order.START_FIRST, "+/-"),
        (ActionKind.REPLACE, Order.STOP_FIRST, "-/+"),
    ],
)
def test_the_legend_has_only_the_symbols_in_use(kind: ActionKind, order: Order | None, symbol: str) -> None:
    """One action, one symbol, in the legend and before the instance."""
    action = replace(sample.START, kind=kind, order=order)
    text = plan_text(replace(sample.EMPTY, actions=(action,)), sample.SNAPSHOT, width=None, color=False, wide=False)
    legend, head = text.splitlines()[2], text.splitlines()[4]
    assert legend.split()[0] == symbol
    assert not {"+", "-", "~", "+/-", "-/+", "!"} - {symbol} & set(legend.split())
    assert head.split()[0] == symbol


def test_an_empty_plan_has_no_legend() -> None:
    """Title and summary."""
    text = plan_text(sample.EMPTY, sample.SNAPSHOT, width=80, color=False, wide=False)
    assert text == "Plan for lab at no commit\n\nNo changes.\n"


def test_uuids_show_only_when_they_are_asked_for() -> None:
    """People name cards by host and index."""
    narrow, wide = (render("plan", None, wide=wide) for wide in (False, True))
    assert "GPU-0" not in narrow
    assert "GPU-000, GPU-001" in wide


def test_status_is_filtered() -> None:
    """--host and --only leave out what they do not select."""
    text = status_text(
        sample.PLAN, sample.SNAPSHOT, lambda host, _: host == "gpu-03", width=80, color=False, wide=False
    )
    assert "nothing runs" in text
    assert "app/web/0" in text
    assert "app/llm-chat" not in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Grüße 漢字", "Grüße 漢字"),
        ("a\nb\tc\x00", "a\\nb\\tc\\x00"),
        ("\x1b[2J\x9b", "\\x1b[2J\\x9b"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("lone \ud800", "lone \\ud800"),
    ],
)
def test_text_from_outside_cannot_move_the_cursor(text: str, shown: str) -> None:
    """Control characters are spelled out; letters of any script stay."""
    assert safe(text) == shown


@pytest.mark.parametrize(
    ("stamp", "shown"),
    [
        ("2026-11-30T10:00:01.123456789Z", "2026-11-30 10:00:01 UTC"),
        ("2026-11-30T10:00:01Z", "2026-11-30 10:00:01 UTC"),
        ("2026-11-30T10:00:01+01:00", "2026-11-30 10:00:01+01:00"),
        ("0001-01-01T00:00:00Z", ""),
        ("", ""),
    ],
)
def test_times_of_an_engine_are_shown_to_the_second(stamp: str, shown: str) -> None:
    """The zero time of Go is no time."""
    assert since_name(stamp) == shown


def test_words_are_wrapped_and_never_cut() -> None:
    """Wide characters count twice; a word longer than the line stands alone."""
    page = Page(20)
    page.add("one two three four five six", indent=2)
    page.add("漢字漢字漢字 漢字漢字", indent=0)
    page.add("short " + "x" * 30 + " end")
    assert (
        page.text()
        == "  one two three four\n    five six\n漢字漢字漢字\n  漢字漢字\nshort\n  " + "x" * 30 + "\n  end\n"
    )


def test_a_table_wraps_its_widest_column() -> None:
    """Cells stay under their heads."""
    page = Page(24)
    page.table([["A", "B"], ["one", "some words that are long"], [Span("x", Style.WARN), ""]], indent=1)
    assert page.text() == " A    B\n one  some words that\n      are long\n x\n"
