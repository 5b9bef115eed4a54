"""Fields and kinds whose effect comes later: checked in form, then refused, never ignored."""

import pytest

from tests.fakes.specs import problems, said

LATER: list[tuple[str, str, str]] = [
    ("App", "queue: inference", "queue"),
    ("App", "wave: 1", "wave"),
    ("App", "dependsOn: [app/db]", "dependsOn"),
    ("App", "drift: repair", "drift"),
    ("App", "protect: true", "protect"),
    ("App", "expires: 2027-01-01", "expires"),
    ("App", "topology: rack", "topology"),
    ("App", "readiness: {http: {port: http, path: /health}}", "readiness.http"),
    ("App", "readiness: {tcp: {port: 80}}", "readiness.tcp"),
    ("App", "health: {http: {port: 80, status: 204}}", "health.http"),
    ("App", "health: {tcp: {port: web}}", "health.tcp"),
    ("App", "health: {exec: [a]}\nreadiness: {exec: [b]}", "health that differs from readiness"),
    ("App", "stop: {preStop: [a]}", "stop.preStop"),
    ("App", "rollout: {maxUnavailable: 2}", "rollout.maxUnavailable"),
    ("App", "rollout: {maxSurge: 1}", "rollout.maxSurge"),
    ("App", "rollout: {onFailure: rollback}", "rollout.onFailure"),
    ("App", "onHostLost: replace", "onHostLost"),
    ("Task", "members: 2", "members"),
    ("Task", "gang: {a: b}", "gang"),
    ("Task", "array: [1, 2]", "array"),
    ("Task", "schedule: {cron: '0 3 * * *', timeZone: Europe/Berlin}", "schedule"),
    ("Task", "retries: 3", "retries"),
    ("Task", "deadline: 2h", "deadline"),
    ("Task", "ttl: 1h", "ttl"),
    ("Host", "fabric: 10.1.0.1", "fabric"),
    ("Host", "tls: {ca: a, cert: b, key: c}", "tls"),
    *(
        ("Cluster", f"{name}: {{}}", name)
        for name in ("registries", "autoTags", "sources", "bases", "patches", "vars", "images", "verify")
    ),
    ("Cluster", "probe: {image: probe:1, interval: 1m}", "probe"),
    ("Cluster", "hostLostAfter: 5m", "hostLostAfter"),
    ("Cluster", "defaults: {queue: a}", "queue"),
    ("Cluster", "defaults: {schedule: {cron: x}}", "schedule"),
]


@pytest.mark.parametrize(("kind", "lines", "name"), LATER)
def test_not_supported_yet(kind: str, lines: str, name: str) -> None:
    """A field whose effect comes later is never ignored."""
    found = said(kind, lines)
    assert len(found) == 1, found
    assert found[0].split(": ", 1)[1] == f"{name}: not supported yet"


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("App", "wave: high"),
        ("Task", "schedule: {crn: x}"),
        ("Cluster", "probe: {}"),
        ("App", "readiness: {http: {port: 70000}}"),
    ],
)
def test_later_fields_are_checked_in_form(kind: str, lines: str) -> None:
    """A field with a wrong form says that, and not only that it comes later."""
    found = said(kind, lines)
    assert found
    assert not any("not supported" in problem for problem in found)


def test_a_queue_is_checked_and_refused() -> None:
    """The whole kind comes later."""
    queue = "apiVersion: reconciler/v1\nkind: Queue\nname: inference\n"
    assert problems({"a.yaml": queue + "weight: 2\n"}) == ["a.yaml:2:7: Queue: not supported yet"]
    assert "a.yaml:4:9: weight: must be more than 0" in problems({"a.yaml": queue + "weight: 0\n"})
