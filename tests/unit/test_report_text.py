"""What people read: plans, hosts, status, facts; narrow, wide, plain and coloured."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from reconciler.model.host import NumaNode
from reconciler.model.plan import ActionKind, Change, Nearest, Order, Pending, Plan, Waiting
from reconciler.model.snapshot import HostView, Snapshot
from reconciler.report.changes import change_text
from reconciler.report.document import plan_json
from reconciler.report.facts import facts_text
from reconciler.report.hosts import hosts_text
from reconciler.report.lines import Page, Span, Style, cells, safe
from reconciler.report.markdown import plan_markdown
from reconciler.report.names import since_name
from reconciler.report.status import status_text
from reconciler.report.text import AGAIN, plan_text, summary_line, waiting_text
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
    assert "nothing is known to run" in text
    assert "app/web/0" in text
    assert "app/llm-chat" not in text
    assert "task/nightly" not in text
    assert "app/small/0 on gpu-01: MATCH_TAG" not in text


def test_status_says_what_is_unknown() -> None:
    """A host that does not answer may run anything; one that answers and runs nothing runs nothing."""
    silent, quiet = sample.SNAPSHOT.hosts[1:]

    def read(view: HostView) -> str:
        return status_text(
            sample.EMPTY, Snapshot((view,)), lambda _host, _one: True, width=None, color=False, wide=False
        )

    assert "nothing runs" in read(quiet)
    assert "nothing runs" not in read(silent)
    assert "Unreachable:\n  gpu-02: no answer within 15 s; what runs there is unknown\n" in read(silent)
    last = replace(silent, containers=sample.CONTAINERS)
    assert "gpu-02: no answer within 15 s; shown as last seen" in read(last)


def test_status_lists_what_is_stopped_on_purpose() -> None:
    """A suspended workload is no riddle."""
    text = status_text(
        sample.EMPTY,
        Snapshot(()),
        lambda _host, _one: True,
        width=None,
        color=False,
        wide=False,
        suspended=["app/web"],
    )
    assert text.endswith("\nSuspended:\n  app/web: stopped on purpose\n")


def text_of(plan: Plan, chosen: str = "") -> str:
    """A plan on a pipe."""
    return plan_text(plan, sample.SNAPSHOT, width=None, color=False, wide=False, chosen=chosen)


@pytest.mark.parametrize(
    ("reason", "changes", "shown"),
    [
        ("changed: image", (Change("image", "a:1", "a:2"),), ()),
        ("changed in place: pids", (Change("pids", 1, 2),), ()),
        ("changed: image; stop-first: no room", (Change("image", "a:1", "a:2"),), ("stop-first: no room",)),
        ("changed: image, user", (Change("image", "a", "b"), Change("user", "a", "b")), ("changed: image, user",)),
        ("a secret changed", (), ("a secret changed",)),
        ("gpu-01 is drained", (Change("image", "a:1", "a:2"),), ("gpu-01 is drained",)),
    ],
)
def test_a_reason_does_not_repeat_the_only_change(
    reason: str, changes: tuple[Change, ...], shown: tuple[str, ...]
) -> None:
    """``changed: image`` above ``image: "a:1" → "a:2"`` says nothing; every other reason stands."""
    action = replace(sample.REPLACE, reason=reason, changes=changes, old=None)
    lines = [line.strip() for line in text_of(replace(sample.EMPTY, actions=(action,))).splitlines()]
    head = lines.index(f"+/- {action.instance} on {action.host}")
    assert tuple(lines[head + 1 : head + 1 + len(shown)]) == shown
    assert all(change_text(change) in lines[head + 1 + len(shown) :] for change in changes)
    assert plan_json(replace(sample.EMPTY, actions=(action,)))["actions"][0]["reason"] == reason


def test_a_start_shows_its_image() -> None:
    """What is started is the first thing one asks."""
    text = text_of(replace(sample.EMPTY, actions=(sample.START,)))
    assert "      image   vllm:0.11\n" in text


@pytest.mark.parametrize(("state", "line"), [("running", "still   running on gpu-01"), ("exited", ""), ("created", "")])
def test_pending_work_that_cannot_move_still_runs(state: str, line: str) -> None:
    """On a drained host it goes on until there is another place."""
    pending = Pending(sample.KEPT[0].instance, "no host has 2 free GPUs")
    plan = replace(sample.EMPTY, pending=(pending,), kept=(replace(sample.KEPT[0], state=state),))
    assert ("still" in text_of(plan), line in text_of(plan)) == (bool(line), True)
    assert ("still" in plan_markdown(plan, sample.SNAPSHOT)) is bool(line)


@pytest.mark.parametrize(
    ("removed", "nearest", "lines"),
    [
        ((("drained", 1),), Nearest("a", "it is drained"), ["removed 1 is drained", "nearest a: it is drained"]),
        (
            (("unreachable", 2), ("no facts yet", 1), ("cordoned", 3), ("stale facts", 1), ("NO_TAG", 1)),
            Nearest("a", "1 more free CPU"),
            [
                "removed 2 are unreachable, 1 has no facts yet, 3 are cordoned, 1 has stale facts, 1 by NO_TAG",
                "nearest a lacks 1 more free CPU",
            ],
        ),
    ],
)
def test_hosts_that_take_no_work_are_told_in_words(
    removed: tuple[tuple[str, int], ...], nearest: Nearest, lines: list[str]
) -> None:
    """No host lacks being drained; the names of the filters stay in the JSON."""
    plan = replace(sample.EMPTY, pending=(Pending(sample.KEPT[0].instance, "why", removed, nearest),))
    assert [line.strip() for line in text_of(plan).splitlines() if line.startswith("      ")][1:] == lines
    assert plan_json(plan)["pending"][0]["removed"] == dict(removed)


@pytest.mark.parametrize(
    ("waiting", "text"),
    [
        (Waiting(None, "failed once: x", 5.0, failed=True), f"failed once: x; {AGAIN}"),
        (Waiting(None, "unhealthy", None, failed=True), "unhealthy"),
        (Waiting(None, "suspended"), "suspended"),
    ],
)
def test_what_failed_is_said_to_be_tried_again(waiting: Waiting, text: str) -> None:
    """Only where a time is set for it, and without that time."""
    assert waiting_text(waiting) == text


def test_a_failed_run_is_no_drift() -> None:
    """It stands under a head of its own, in text and in Markdown."""
    text = text_of(sample.PLAN)
    assert "  Failed:\n    task/nightly/7/0/0 on gpu-01: exited with code 3\n" in text
    assert text.count("task/nightly") == 1
    assert "- failed: task/nightly/7/0/0 on gpu-01: exited with code 3" in plan_markdown(sample.PLAN, sample.SNAPSHOT)


def test_a_filtered_plan_says_so() -> None:
    """Below the title, as text and as Markdown."""
    said = "--only app/web: only what these select is shown and applied; everything is planned"
    assert text_of(sample.EMPTY, "--only app/web").splitlines()[1] == said
    assert said in plan_markdown(sample.EMPTY, sample.SNAPSHOT, chosen="--only app/web")
    assert "select" not in text_of(sample.EMPTY)


def test_one_of_a_kind_is_singular() -> None:
    """1 CPU, 1 card, 1 NUMA node."""
    facts = replace(sample.FACTS, numa_nodes=(NumaNode(0, (0,), sample.GIB, 0),), gpus=sample.FACTS.gpus[:1], smt=())
    text = facts_text(facts, width=None, color=False)
    assert "1 CPU, 1Gi memory, 1 NUMA node, 1 card," in text
    (view, *_) = sample.SNAPSHOT.hosts
    spec = replace(view.spec, reserved_cpus=(), reserved_memory=0)
    alone = replace(view, spec=spec, facts=facts, containers=())
    text = hosts_text(Snapshot((alone,)), width=None, color=False, wide=False)
    assert "1 of 1 card free, 1 of 1 CPU free" in text


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
