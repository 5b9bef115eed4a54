"""Strict documents: scalars of YAML 1.2, positions, duplicates, merges, caps and broken bytes."""

import time
from typing import Any

import pytest

from reconciler.desired.documents import MAX_ALIASES, MAX_BYTES, MAX_NODES, MAX_PROBLEMS, Document, parse
from reconciler.desired.scalars import Plain, bare


def only(text: str | bytes, file: str = "a.yaml") -> Document:
    """The one document of a file without problems."""
    documents, problems = parse(text.encode() if isinstance(text, str) else text, file)
    assert problems == ()
    assert len(documents) == 1
    return documents[0]


def complaints(text: str | bytes, file: str = "a.yaml") -> list[str]:
    """What is said of a file."""
    return [str(problem) for problem in parse(text.encode() if isinstance(text, str) else text, file)[1]]


# https://yaml.org/spec/1.2.2/#103-core-schema, and the list of what YAML 1.1 gets wrong.
SCALARS: list[tuple[str, Any]] = [
    *((word, word) for word in ("on", "off", "yes", "no", "y", "n", "On", "YES")),
    *((word, word) for word in ("22:22", "1:59", "12:30:45", "2024-01-01", "2024-01-01T00:00:00Z")),
    *((word, word) for word in ("12e03456", "1_000", "0b11", "0x", "0o8", "1.2.3", "+-1", ".", "<<x", "0xg")),
    ("true", True),
    ("False", False),
    ("TRUE", True),
    ("0", 0),
    ("-12", -12),
    ("+7", 7),
    ("0444", 444),
    ("0o444", 0o444),
    ("0xFF", 255),
    ("1.10", 1.1),
    (".5", 0.5),
    ("5.", 5.0),
    ("1e3", 1000.0),
    ("-1.5E-2", -0.015),
    (".inf", float("inf")),
    ("-.INF", float("-inf")),
    ("null", None),
    ("~", None),
    ("", None),
    ('"1"', "1"),
    ("'true'", "true"),
    ('"null"', "null"),
    ("!!str 12", "12"),
    ("!!int 12", 12),
]


@pytest.mark.parametrize(("written", "meant"), SCALARS)
def test_scalars_are_those_of_the_core_schema(written: str, meant: Any) -> None:
    """A plain scalar reads as YAML 1.2 says; a quoted one is a string."""
    value = bare(only(f"a: {written}").value["a"])
    assert value == meant
    assert type(value) is type(meant)


@pytest.mark.parametrize("written", ["1.10", "0444", "true", "0x10", "1e3", "+7"])
def test_numbers_keep_their_text(written: str) -> None:
    """What a string field gets is the text as written."""
    value = only(f"a: {written}").value["a"]
    assert type(value) is Plain
    assert str(value) == written


def test_keys_are_strings_as_written() -> None:
    """A key is never a number or a truth value."""
    assert list(only("on: a\n1: b\ntrue: c\n1.10: d").value) == ["on", "1", "true", "1.10"]


POSITIONED = """# a comment
kind: App
env:
  HOME: /root
  "quoted key": x
ports:
  - {name: http, container: 80}
  - name: metrics
    container: 9100
note: é
"""


@pytest.mark.parametrize(
    ("path", "key", "expected"),
    [
        ((), False, (2, 1)),
        (("kind",), False, (2, 7)),
        (("kind",), True, (2, 1)),
        (("env", "HOME"), False, (4, 9)),
        (("env", "HOME"), True, (4, 3)),
        (("env", "quoted key"), False, (5, 17)),
        (("ports", 0, "container"), False, (7, 29)),
        (("ports", 1, "container"), False, (9, 16)),
        (("ports", 1, "container"), True, (9, 5)),
        (("env", "absent"), False, (4, 3)),
        (("ports", "(a form)", 1, "name"), False, (8, 11)),
        (("ports", 7), False, (7, 3)),
        (("note",), False, (10, 7)),
    ],
)
def test_every_node_has_a_position(path: tuple[str | int, ...], key: bool, expected: tuple[int, int]) -> None:
    """Positions count from 1; a part that is not there is passed over."""
    assert only(POSITIONED).position(path, key=key) == expected


def test_many_documents_in_one_file() -> None:
    """Empty documents are none; each other one knows where it starts."""
    documents, problems = parse(b"---\na: 1\n---\n# nothing\n---\nb: 2\n...\n---\nc: 3\n", "a.yaml")
    assert problems == ()
    assert [(list(document.value), document.line) for document in documents] == [(["a"], 2), (["b"], 6), (["c"], 9)]


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n---\n", "null\n"])
def test_a_file_without_documents(text: str) -> None:
    """Nothing is no fault."""
    assert parse(text.encode(), "a.yaml") == ((), ())


def test_documents_before_a_syntax_error_are_kept() -> None:
    """Their own faults are still worth telling."""
    documents, problems = parse(b"a: 1\n---\nb: [\n", "a.yaml")
    assert [document.value for document in documents] == [{"a": "1"}]
    assert len(problems) == 1
    assert (problems[0].line, problems[0].column) == (4, 1)


def test_byte_order_mark_is_stripped() -> None:
    """Editors on Windows write one."""
    document = only(b"\xef\xbb\xbfa: 1\n")
    assert document.position(("a",)) == (1, 4)


def test_merge_keys() -> None:
    """Own keys win, then the earlier of several maps; positions are those of the anchor."""
    document = only("x-a: &a {p: 1}\nx-b: &b {p: 2, q: 3}\nz:\n  <<: [*a, *b]\n  r: 4\n  q: 5\n")
    assert bare(document.value["z"]) == {"r": 4, "q": 5, "p": 1}
    assert document.position(("z", "p")) == (1, 13)
    assert bare(only("x-a: &a {p: 1}\nz: {<<: *a}\n").value["z"]) == {"p": 1}
    assert bare(only('z: {"<<": 1}\n').value["z"]) == {"<<": 1}


JSON = '{\n\t"a": [1, true, null, "x\\/y"],\r\n\t"b": {"c": "\\ud83d\\ude00 \\\\ud83d"}\n}\n'


def test_json_files() -> None:
    """JSON is read too: tabs, escaped slashes and surrogate pairs."""
    document = only(JSON, "a.json")
    assert bare(document.value) == {"a": [1, True, None, "x/y"], "b": {"c": "😀 \\ud83d"}}
    assert document.position(("b", "c")) == (3, 13)


FAULTS: list[tuple[str | bytes, str]] = [
    ("a: 1\nb: 2\na: 3\n", "a.yaml:3:1: duplicate key a (the first is on line 1)"),
    ("a:\n  b: 1\n  b: 2\n", "a.yaml:3:3: duplicate key b (the first is on line 2)"),
    ("a: {on: 1, 'on': 2}", "a.yaml:1:12: duplicate key on (the first is on line 1)"),
    (
        "x: &x {p: 1}\nz:\n  <<: *x\n  <<: *x\n",
        "a.yaml:4:3: a second << in one map (the first is on line 3)",
    ),
    ("z: {<<: 1}", "a.yaml:1:5: << takes a map or a list of maps"),
    (b"a: \xff\n", "a.yaml:1:4: not UTF-8: byte 0xff at offset 3"),
    (b"\xef\xbb\xbfa: 1\nb\xc3\xa9: \xff\n", "a.yaml:2:5: not UTF-8: byte 0xff at offset 13"),
    (b"\xff\xfea\x00", "a.yaml:1:1: not UTF-8: byte 0xff at offset 0"),
    ("a: é\x07\n", "a.yaml:1:5: character U+0007 is not allowed"),
    ('a: "\\0"', "a.yaml:1:4: character U+0000 is not allowed"),
    ("a: *b", "a.yaml:1:4: alias *b has no anchor before it"),
    ("a: &b [*b]", "a.yaml:1:8: alias *b stands inside what it refers to"),
    ("a: !secret x", "a.yaml:1:4: tag !secret is not supported"),
    ("a: !!python/object:os.system {}", "a.yaml:1:4: tag tag:yaml.org,2002:python/object:os.system is not supported"),
    ("a: !!set {b}", "a.yaml:1:4: tag tag:yaml.org,2002:set is not supported"),
    ("[a]: 1", "a.yaml:1:1: a key must be a string"),
    ("~: 1", "a.yaml:1:1: a key must be a string"),
    ("x: &m {}\n*m : 1", "a.yaml:2:1: a key must be a string"),
    *(
        (text, f"a.yaml:{at}: tabs cannot indent: use spaces")
        for text, at in (
            ("a:\n\tb: 1\n", "2:1"),
            ("a:\n  b: 1\n\tc: 2\n", "3:1"),
            ("\ta: 1\n", "1:1"),
            ("a:\n \tb: 1\n", "2:2"),
            ("a:\n  - x\n\t- y\n", "3:1"),
            ("a: |\n  x\n\ty\n", "3:1"),
            ("-\ta: 1\n", "1:2"),
            ("é: 1\nb:\n  c:\n  \td: 1\n", "4:3"),
        )
    ),
    (
        "a: {\n\tb: 1,\n\tc: [2,, 3]}",
        "a.yaml:3:8: did not find expected node content, while parsing a flow node that starts on line 3",
    ),
    ("- a\n", "a.yaml:1:1: a document must be a map with apiVersion, kind and name"),
    ("text\n", "a.yaml:1:1: a document must be a map with apiVersion, kind and name"),
    ("a: b: c", "a.yaml:1:5: mapping values are not allowed in this context"),
    (
        "a: [1, 2",
        "a.yaml:2:1: did not find expected ',' or ']', while parsing a flow sequence that starts on line 1",
    ),
]


@pytest.mark.parametrize(("text", "expected"), FAULTS)
def test_faults_have_a_position(text: str | bytes, expected: str) -> None:
    """One line for each fault, at the node that is wrong."""
    assert complaints(text) == [expected]


def test_a_message_is_one_line() -> None:
    """Names of the user cannot break the line or colour a terminal."""
    (message,) = complaints('{"a\\nb\\e[31m": 1, "a\\nb\\e[31m": 2}')
    assert message == "a.yaml:1:19: duplicate key a\\nb\\x1b[31m (the first is on line 1)"


@pytest.mark.parametrize("opening", ["[", "- ", "{a: ", "? ", "- - ", "a:\n"])
def test_deep_nesting_is_refused(opening: str) -> None:
    """A thousand levels cost no stack and no time."""
    text = opening * 1000 if "\n" not in opening else "".join(f"{' ' * level}{opening}" for level in range(1000))
    problems = parse(text.encode(), "a.yaml")[1]
    assert len(problems) == 1
    assert problems[0].line >= 1
    assert problems[0].message in {"nested more than 64 deep", "a key must be a string"}


def bomb(levels: int) -> str:
    """Each level holds nine of the one before."""
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (bomb(12), f"more than {MAX_NODES} nodes, aliases followed"),
        ("a: &a x\nb: [" + "*a, " * (MAX_ALIASES + 1) + "]", f"more than {MAX_ALIASES} aliases"),
        ("a: [" + "x, " * (MAX_NODES + 1) + "]", f"more than {MAX_NODES} nodes, aliases followed"),
    ],
    ids=["bomb", "aliases", "nodes"],
)
def test_caps(text: str, expected: str) -> None:
    """What would explode when it is walked ends while it is read, at a position."""
    problems = parse(text.encode(), "a.yaml")[1]
    assert [problem.message for problem in problems] == [expected]
    assert problems[0].line in {1, 2, 5, 6}


def test_large_files_are_not_read() -> None:
    """The cap on bytes concerns the file as a whole."""
    assert complaints(b"#" * (MAX_BYTES + 1)) == ["a.yaml: larger than 1024 KiB"]


def test_endless_problems_end() -> None:
    """After a hundred problems the rest of the file is not read."""
    problems = parse(b"a: 1\n" * 10_000, "a.yaml")[1]
    assert len(problems) == MAX_PROBLEMS + 1
    assert str(problems[-1]) == f"a.yaml:101:1: more than {MAX_PROBLEMS} problems; the rest is not read"


@pytest.mark.parametrize("piece", ["[", "{", "'", '"', "- ", "&a ", "!a ", "a: \n ", "[]: ", "\n", "%", "|\n", "? "])
def test_hostile_files_end_soon(piece: str) -> None:
    """No million of anything hangs the parser."""
    text = (piece * (MAX_BYTES // len(piece))).encode()
    began = time.process_time()
    parse(text, "a.yaml")
    assert time.process_time() - began < 5
