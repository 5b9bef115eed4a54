"""What programs read: the plan as JSON and Markdown, hosts, status and explanations as JSON."""

import json
from dataclasses import replace
from typing import Any

import pytest

from reconciler.errors import UsageError
from reconciler.model.plan import Action, ActionKind, Nearest, Pending, Plan, Step, StepKind, Waiting
from reconciler.model.workload import Allocation, InstanceId
from reconciler.planner.explain import Explanation, Offered, Rival, Room
from reconciler.report.document import plan_json, plan_json_text, read_saved_plan
from reconciler.report.explain import explain_json, explain_text
from reconciler.report.hosts import hosts_json
from reconciler.report.markdown import LIMIT, plan_markdown
from reconciler.report.status import status_json
from tests.fakes import report_samples as sample
from tests.fakes.golden import check

# The example of docs: a plan with one start and a pending gang of two.
DOCUMENTED: dict[str, Any] = {
    "format": "reconciler.plan/v1",
    "commit": "3f2a1c9",
    "cluster": "lab",
    "fingerprint": "sha256:00",
    "actions": [
        {
            "action": "start",
            "instance": "app/llm-chat/0",
            "host": "gpu-01",
            "order": None,
            "allocation": {
                "gpus": ["GPU-5f1c", "GPU-77ab"],
                "mig": [],
                "share": None,
                "gpuNodes": [0],
                "cpuNodes": [0],
                "memoryNodes": [0],
                "cpus": "2-9",
                "memory": 68719476736,
                "ports": [{"container": 8000, "protocol": "tcp", "host": 30000}],
            },
            "reason": "2 desired, 0 running",
            "changes": [],
            "steps": ["pull", "create", "start", "ready"],
        }
    ],
    "pending": [
        {
            "instance": f"task/finetune/4e1d/0/{member}",
            "gang": "task/finetune/4e1d/0",
            "reason": "no host has 8 free GPUs on matching cards",
            "removed": {"MATCH_TAG train": 1, "gpus": 2},
            "nearest": {"host": "gpu-02", "lacks": "3 more free GPUs"},
        }
        for member in (0, 1)
    ],
    "drift": [],
    "warnings": [],
    "queues": [],
    "summary": {"start": 1, "replace": 0, "update": 0, "stop": 0, "pending": 2, "unchanged": 0},
}
GANG = "task/finetune/4e1d/0"
EXAMPLE = Plan(
    "lab",
    "3f2a1c9",
    "repo",
    "sha256:00",
    (
        Action(
            ActionKind.START,
            InstanceId.parse("app/llm-chat/0"),
            "gpu-01",
            "2 desired, 0 running",
            tuple(
                Step(kind, "gpu-01", "n") for kind in (StepKind.PULL, StepKind.CREATE, StepKind.START, StepKind.READY)
            ),
            allocation=Allocation(
                ("GPU-5f1c", "GPU-77ab"),
                gpu_nodes=(0,),
                cpu_nodes=(0,),
                memory_nodes=(0,),
                cpus=tuple(range(2, 10)),
                memory=68719476736,
                ports=((8000, "tcp", 30000),),
            ),
        ),
    ),
    tuple(
        Pending(
            InstanceId.parse(f"{GANG}/{member}"),
            "no host has 8 free GPUs on matching cards",
            (("MATCH_TAG train", 1), ("gpus", 2)),
            Nearest("gpu-02", "3 more free GPUs"),
            GANG,
        )
        for member in (0, 1)
    ),
)


def test_the_document_is_the_documented_one() -> None:
    """Every key of the documented shape; ``waiting`` stands beside them."""
    document = plan_json(EXAMPLE)
    assert document.pop("waiting") == []
    assert document == DOCUMENTED


@pytest.mark.parametrize("full", [False, True])
def test_the_document_reads_as_it_was_agreed(full: bool) -> None:
    """A document that a person has read."""
    check(f"plan{'-full' if full else ''}.json", plan_json_text(sample.PLAN, full=full))


@pytest.mark.parametrize("text", [plan_json_text(sample.PLAN), plan_markdown(sample.PLAN, sample.SNAPSHOT)])
def test_no_secret_shows(text: str) -> None:
    """Neither its name nor its key; what the plan says is that it changed."""
    assert "(sensitive)" in text.replace("\\", "")
    assert '"hf"' not in text


def test_a_saved_plan_holds_what_applying_needs() -> None:
    """Container ids, digests, specs with references, preconditions, old allocations."""
    document = plan_json(sample.PLAN, full=True)
    replaced = next(one for one in document["actions"] if one["order"] == "start-first")
    assert replaced["old"]["container"] == "c-old"
    assert replaced["old"]["allocation"]["gpus"] == ["GPU-001"]
    assert replaced["steps"][4] == {
        "step": "stop",
        "host": "gpu-01",
        "name": "lab.app.llm-chat.1.g1",
        "container": "c-old",
        "due": False,
        "fields": {},
        "precondition": "the container is there and is ours",
    }
    started = next(one for one in document["actions"] if one["action"] == "start")
    assert started["spec"]["env"] == {"HF_TOKEN": {"secret": "hf", "key": "token"}}


def test_a_saved_plan_is_read_back() -> None:
    """Cluster, commit and fingerprint."""
    saved = read_saved_plan(plan_json_text(sample.PLAN, full=True), "plan.json")
    assert (saved.cluster, saved.commit, saved.source) == ("lab", sample.PLAN.commit, "examples/repo")
    assert saved.fingerprint == sample.PLAN.fingerprint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "plan.json: not JSON"),
        ("[]", "plan.json: not a saved plan"),
        ('{"format": "reconciler.plan/v2"}', "\"format\" is not 'reconciler.plan/v1'"),
        (plan_json_text(sample.PLAN), "no 'source' (save it with --out, not with --json)"),
        (plan_json_text(sample.PLAN, full=True).replace('"3f2a1c9', '3, "x": "'), "commit is no hash"),
        ("[" * 100_000, "plan.json: not JSON"),
    ],
)
def test_what_is_no_saved_plan_is_refused(text: str, message: str) -> None:
    """In one line that says what to do."""
    with pytest.raises(UsageError) as raised:
        read_saved_plan(text, "plan.json")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


# -- Markdown


def test_the_comment_reads_as_it_was_agreed() -> None:
    """Summary and table in sight, details folded."""
    check("plan.md", plan_markdown(sample.PLAN, sample.SNAPSHOT))


def test_a_comment_has_no_active_text_from_outside() -> None:
    """No markup, no HTML, no mention, no way out of a fence."""
    evil = "@everyone ```</details><img src=x> [a](javascript:b) | x"
    action = replace(sample.START, reason=evil, warnings=(evil,))
    text = plan_markdown(replace(sample.PLAN, actions=(action,), warnings=(evil,)), sample.SNAPSHOT)
    outside = [line for line in text.splitlines() if "everyone" in line and not line.startswith("      ")]
    assert outside
    for line in outside:
        assert "@everyone" not in line
        assert "<img" not in line.replace("\\<", "")
        assert "[a](" not in line
    assert "\n````\n" in text, "the fence is longer than any in the text"


def test_a_comment_stays_within_what_a_forge_accepts() -> None:
    """What is left out is said."""
    actions = tuple(replace(sample.START, instance=InstanceId.parse(f"app/web/{at}")) for at in range(500))
    text = plan_markdown(replace(sample.PLAN, actions=actions), sample.SNAPSHOT)
    assert len(text) < LIMIT + 1000
    assert "more left out" in text
    assert "and 302 more" in text


def test_an_empty_plan_is_a_short_comment() -> None:
    """Nothing to fold."""
    assert plan_markdown(sample.EMPTY, sample.SNAPSHOT) == "### Plan for lab at no commit\n\n**No changes.**\n"


# -- hosts, status, explain


def test_hosts_as_json_names_every_card_and_holder() -> None:
    """Free, held, busy, sliced and lost cards; hosts without facts have none."""
    hosts = {one["host"]: one for one in hosts_json(sample.SNAPSHOT)["hosts"]}
    cards = {card["index"]: card for card in hosts["gpu-01"]["cards"]}
    states = {index: card["state"] for index, card in cards.items()}
    assert states == {0: "held", 1: "held", 2: "busy", 3: "sliced", 4: "unhealthy", 5: "held"}
    assert [by["name"] for by in cards[0]["heldBy"]] == ["app/llm-chat/0"]
    assert cards[2]["heldBy"][0] | {"user": "alice", "pid": 4121} == cards[2]["heldBy"][0]
    assert [[by["name"] for by in one["heldBy"]] for one in cards[3]["slices"]] == [["app/small/0"], []]
    assert hosts["gpu-01"]["cpus"] == {"total": 32, "reserved": 2, "given": 9, "free": 21}
    assert hosts["gpu-01"]["memory"]["free"] == (504 - 8 - 64 - 8 - 1) * sample.GIB
    assert (hosts["gpu-02"]["reach"], hosts["gpu-02"]["cards"], hosts["gpu-03"]["cpus"]) == ("unreachable", [], None)
    assert json.loads(json.dumps(hosts)) == hosts


def test_status_as_json_says_how_each_instance_is() -> None:
    """State with health, restarts and exit code; what changes, is pending and waits."""
    document = status_json(sample.PLAN, sample.SNAPSHOT, lambda _host, _one: True)
    assert [one["state"] for one in document["instances"]] == ["running (healthy, 1 restart)", "exited"]
    assert [one["action"] for one in document["changing"]][:2] == ["update", "adopt"]
    assert len(document["pending"]) == 2
    assert document["waiting"][0]["failed"] is True
    assert document["unreachable"] == [{"host": "gpu-02", "reason": "no answer within 15 s"}]
    suspended = status_json(sample.PLAN, sample.SNAPSHOT, lambda _host, _one: True, ["app/web"])["suspended"]
    assert suspended == ["app/web"]


@pytest.mark.parametrize(
    ("host", "pending", "waiting"),
    [
        ("gpu-01", ["app/llm-chat/0"], ["app/small/0", None]),
        ("gpu-02", ["localservice/exporter/gpu-02"], [None]),
        ("gpu-03", [], [None]),
    ],
)
def test_pending_and_waiting_work_counts_to_its_host(host: str, pending: list[str], waiting: list[str | None]) -> None:
    """To the one that it is still on, or must be on; what waits as a whole counts everywhere."""
    names = ("app/llm-chat/0", "app/new/0", "localservice/exporter/gpu-02")
    plan = replace(
        sample.PLAN,
        pending=tuple(Pending(sample.instance(name), "why") for name in names),
        waiting=(Waiting(sample.instance("app/small/0"), "why"), Waiting(None, "held")),
    )
    document = status_json(plan, sample.SNAPSHOT, lambda where, _: where == host)
    assert [one["instance"] for one in document["pending"]] == pending
    assert [one["instance"] for one in document["waiting"]] == waiting


FOUND = Explanation(
    InstanceId.parse("app/llm-chat/0"),
    12,
    (("MATCH_TAG a100", tuple(f"cpu-{at:02}" for at in range(9))), ("gpus", ("gpu-02",))),
    (
        Offered("gpu-01", "node 0", "leaves 2 GPUs free", sample.CHAT, ("prefer MATCH_TAG a100",)),
        Offered("gpu-03", "", "leaves 4 GPUs free"),
    ),
    7,
    "gpu-01",
    "best of 7 hosts that fit: leaves 2 GPUs free",
    rival=Rival("gpu-03", "leaves 2 GPUs free instead of 4"),
)
NOWHERE = replace(
    FOUND,
    offers=(),
    fitting=0,
    winner=None,
    why="",
    pending=sample.PENDING[0],
    warnings=("NUMA unknown",),
    rival=None,
    rooms=(
        Room("asked", 8, 8000, 64 * sample.GIB),
        Room("gpu-02", 5, 31500, 200 * sample.GIB),
        Room("node 0", 2, 15500, 100 * sample.GIB),
        Room("node 1", 3, 16000, 100 * sample.GIB),
    ),
)
KEPT = replace(
    FOUND,
    why="kept where it is: leaves 4 GPUs free",
    rival=Rival("gpu-03", "leaves 2 GPUs free instead of 4", better=True),
)


@pytest.mark.parametrize(
    ("name", "found"), [("explain-here", FOUND), ("explain-kept", KEPT), ("explain-nowhere", NOWHERE)]
)
def test_an_explanation_reads_as_it_was_agreed(name: str, found: Explanation) -> None:
    """Where it runs, what the plan does, what removed hosts, what the rest offered."""
    text = explain_text(found, sample.PLAN, sample.SNAPSHOT, width=80, color=False, wide=False)
    check(f"{name}.txt", text)


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ("running", "  runs    on gpu-01, running since 2026-11-30 10:00:01 UTC, owner chat-team"),
        ("exited", "  ran     on gpu-01, exited with code 3, ended 2026-11-30 10:00:01 UTC, owner chat-team"),
        ("dead", "  ran     on gpu-01, exited with code 3, ended 2026-11-30 10:00:01 UTC, owner chat-team"),
        ("created", "  is      on gpu-01, created, not started, owner chat-team"),
    ],
)
def test_an_explanation_tells_a_run_that_ended_from_one_that_goes_on(state: str, line: str) -> None:
    """Since when it runs, how and when it ended, or that it never started."""
    since = "0001-01-01T00:00:00Z" if state == "created" else sample.SINCE
    plan = replace(sample.EMPTY, kept=(replace(sample.KEPT[0], state=state, since=since),))
    (view, *_) = sample.SNAPSHOT.hosts
    ended = replace(view, containers=tuple(replace(one, exit_code=3) for one in view.containers))
    text = explain_text(FOUND, plan, replace(sample.SNAPSHOT, hosts=(ended,)), width=None, color=False, wide=False)
    assert line in text.splitlines()


def test_a_note_stands_where_no_host_was_looked_for() -> None:
    """What is stopped on purpose is not placed, not even to see where it would go."""
    found = Explanation(sample.instance("app/off/0"), 0, (), (), 0, note="suspended: stopped on purpose")
    text = explain_text(found, sample.PLAN, sample.SNAPSHOT, width=None, color=False, wide=False)
    assert text == "app/off/0\n  note    suspended: stopped on purpose\n"
    assert explain_json(found, sample.PLAN)["note"] == "suspended: stopped on purpose"


def test_a_plan_that_chose_another_host_is_said_to() -> None:
    """Alone it would go elsewhere than beside all else that is placed."""
    found = replace(FOUND, winner="gpu-03", rival=None)
    text = explain_text(found, sample.PLAN, sample.SNAPSHOT, width=None, color=False, wide=False)
    assert "  plan    on gpu-01, since it is placed together with other work\n" in text


def test_an_explanation_as_json_names_the_hosts() -> None:
    """All of them, by filter."""
    document = explain_json(FOUND, sample.PLAN)
    assert document["removed"][1] == {"filter": "gpus", "hosts": ["gpu-02"]}
    assert document["choice"] == {"host": "gpu-01", "why": "best of 7 hosts that fit: leaves 2 GPUs free"}
    assert [(one["host"], one["wishes"]) for one in document["offers"]] == [
        ("gpu-01", ["prefer MATCH_TAG a100"]),
        ("gpu-03", []),
    ]
    assert document["offers"][0]["allocation"]["gpus"] == list(sample.CHAT.gpus)
    assert document["rival"] == {"host": "gpu-03", "better": False, "words": "leaves 2 GPUs free instead of 4"}
    pending = explain_json(NOWHERE, sample.PLAN)["pending"]
    assert pending["nearest"] == {"host": "gpu-02", "lacks": "3 more free GPUs"}
    assert pending["free"][0] == {"of": "asked", "cards": 8, "cpus": 8.0, "memory": 64 * sample.GIB}
