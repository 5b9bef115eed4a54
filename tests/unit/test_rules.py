"""CEL rules: what they see, and which faults are found before any host is looked at."""

import subprocess
import sys
from typing import Any

import pytest

from reconciler.rules import MAX_NESTING, MAX_RULE, RuleError, compile_rule

SEEN: dict[str, Any] = {
    "host": {
        "name": "gpu-01",
        "tags": ["a100", "gpu-01"],
        "labels": {"zone": "west"},
        "gpus": 8,
        "cpus": 64,
        "memory": 2**40,
    },
    "workload": {"name": "llm", "kind": "app", "labels": {"zone": "west"}},
}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("host.gpus >= 8", True),
        ("host.gpus > 8", False),
        ("host.memory >= 1099511627776", True),
        ("host.cpus == 64 && host.name == 'gpu-01'", True),
        ("'a100' in host.tags", True),
        ("'h100' in host.tags", False),
        ("host.tags.exists(t, t.startsWith('a'))", True),
        ("host.tags.all(t, size(t) < 5)", False),
        ("host.labels.zone == workload.labels.zone", True),
        ("host.labels['zone'] == 'east'", False),
        ("has(host.labels.rack)", False),
        ("!has(host.labels.rack) || host.labels.rack == 'r1'", True),
        ("host.name.matches('^gpu-[0-9]+$')", True),
        ("workload.kind == 'app' ? host.gpus > 1 : true", True),
        ("host.name == 'hst.gpuz'", False),
        ("['x', 'y'].exists(a, host.tags.all(b, a != b))", True),
        ("host.tags.exists(a, a == 'a100') && host.tags.exists(a, a == 'gpu-01')", True),
    ],
)
def test_rules_over_a_host(rule: str, expected: bool) -> None:
    """The truth value that the CEL language definition gives."""
    assert compile_rule(rule).matches(SEEN) is expected


@pytest.mark.parametrize(
    ("rule", "place", "message"),
    [
        ("host.gpus >", (1, 12), "syntax error"),
        ("host.gpus > 1 &&\n  host.cpus >", (2, 14), "syntax error"),
        ("hst.gpus > 1", (1, 1), "unknown variable hst; did you mean host?"),
        ("host.gpus > 1 && gpus > 1", (1, 18), "unknown variable gpus"),
        ("host.gpuz > 1", (1, 1), "unknown field host.gpuz; did you mean gpus?"),
        ("true && workload.owner == 'x'", (1, 9), "unknown field workload.owner"),
        ("host.name.startWith('a')", (1, 11), "unknown function startWith; did you mean startsWith?"),
        ("host.gpus", (0, 0), "is int, not true or false"),
        ("host.name + 1 == 2", (0, 0), "cannot be evaluated"),
        ("", (1, 1), "syntax error"),
        ("(" * (MAX_NESTING + 1), (1, MAX_NESTING + 1), "nested more than"),
        ("x" * (MAX_RULE + 1), (0, 0), "longer than"),
        ("[1].all(a, [1].all(b, [1].all(c, true)))", (1, 30), "more than 2 macros over lists inside one another"),
    ],
)
def test_faults_are_found_when_compiling(rule: str, place: tuple[int, int], message: str) -> None:
    """A rule that no host can satisfy by mistake is refused, with the place inside the rule."""
    with pytest.raises(RuleError) as caught:
        compile_rule(rule)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == place
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("host.labels.rack == 'r1'", "no key"),
        ("host.tags[7] == 'x'", "out of bounds"),
        ("host.gpus / (host.gpus - 8) > 1", "division by zero"),
        ("host.labels.zone", "is str, not true or false"),
    ],
)
def test_faults_of_one_host(rule: str, message: str) -> None:
    """What depends on the host is told when the rule meets it, as one kind of error."""
    with pytest.raises(RuleError, match=message):
        compile_rule(rule).matches(SEEN)


def test_a_rule_is_compiled_once() -> None:
    """The same text gives the same object."""
    assert compile_rule("host.gpus > 3") is compile_rule("host.gpus > 3")


def test_the_library_is_loaded_without_its_command_line() -> None:
    """Importing the package would import typer and rich; compiling a rule must not."""
    program = (
        "import sys; from reconciler.rules import compile_rule; before = 'cel' in sys.modules; "
        "compile_rule('host.gpus > 1'); print(before, 'typer' in sys.modules, 'rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"] * 3
