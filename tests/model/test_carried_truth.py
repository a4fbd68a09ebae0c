"""Changes made by both sides to one function, with a known right answer: never a wrong one.

A function is a list of calls. Upstream and the patch each make one edit to it, in a random place:
often in one line, or in lines next to each other. The right answer comes from making both edits to
the list; where the two do not commute there is none, and the change must stop.
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.support.merging import merge_file

from pseries.model.verdicts.follow import Candidate, follow
from pseries.model.verdicts.judge import judge
from pseries.model.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 150
WORDS = ("alpha", "brick", "cedar", "delta", "ember", "flint", "grain", "hazel", "ivory", "jade")


@dataclass(frozen=True)
class Call:
    """One statement; ``wide`` is layout only."""

    target: str
    function: str
    arguments: tuple[str, ...]
    keywords: frozenset[tuple[str, str]] = frozenset()
    wide: bool = False

    def __str__(self) -> str:
        words = [*self.arguments, *(f"{name}={value}" for name, value in sorted(self.keywords))]
        if not self.wide:
            return f"    {self.target} = {self.function}({', '.join(words)})\n"
        inner = "".join(f"        {word},\n" for word in words)
        return f"    # in rows\n    {self.target} = {self.function}(\n{inner}    )\n"


Function = tuple[tuple[int, Call], ...]
"""Calls with numbers that stay with them."""
Edit = tuple[str, int, str]
"""What is done to the call of a number, and a word for it."""


def make(function: Function, edit: Edit) -> Function | None:
    """Return the function with an edit, ``None`` if what it edits is gone."""
    how, number, word = edit
    index = [known for known, _ in function].index(number) if number in dict(function) else -1
    if index < 0:
        return None
    call = function[index][1]
    if how == "remove":
        return function[:index] + function[index + 1 :]
    if how == "insert":
        new = (hash(edit), Call(f"new_{word}", f"make_{word}", (word,)))
        return (*function[: index + 1], new, *function[index + 1 :])
    changed = {
        "argument 0": lambda: replace(call, arguments=(f"other_{word}", *call.arguments[1:])),
        "argument 1": lambda: replace(call, arguments=(call.arguments[0], f"other_{word}")),
        "function": lambda: replace(call, function=f"run_{word}"),
        "target": lambda: replace(call, target=f"result_{word}"),
        "keyword": lambda: replace(call, keywords=call.keywords | {(f"with_{word}", word)}),
        "layout": lambda: replace(call, wide=True),
    }[how]()
    return (*function[:index], (number, changed), *function[index + 1 :])


HOWS = (
    "argument 0", "argument 1", "function", "target", "keyword", "layout", "insert", "remove",
)  # fmt: skip


def both(base: Function, ours: Edit, theirs: Edit) -> Function | None:
    """Return the function with both edits, if their order does not matter."""
    one, other = make(base, ours), make(base, theirs)
    assert one is not None
    assert other is not None
    if ours[:2] == theirs[:2] and ours[0] not in {"keyword", "insert", "layout", "remove"}:
        return None
    first, second = make(one, theirs), make(other, ours)
    return first if first == second else None


def source(function: Function, name: str = "carried") -> str:
    calls = "".join(str(call) for _, call in function)
    header = f"def {name}({', '.join(WORDS)}):\n    start()\n"
    return f"import os\n\n\n{header}{calls}    finish()\n\n\nend()\n"


def rounds(seed: int) -> list[tuple[Function, Edit, Edit]]:
    chance = random.Random(seed)  # noqa: S311 - the same functions every time
    found = []
    for _ in range(ROUNDS):
        base = tuple(
            (number, Call(f"got_{number}", f"call_{number}", tuple(chance.sample(WORDS, 2))))
            for number in range(1, 5)
        )
        at = chance.randint(1, 4)
        near = max(1, min(4, at + chance.choice([0, 0, 0, 1, -1, 2])))
        words = chance.sample(WORDS, 2)
        found.append(
            (base, (chance.choice(HOWS), at, words[0]), (chance.choice(HOWS[:5]), near, words[1]))
        )
    return found


def program(text: str) -> str:
    """Return the syntax tree as text; the order of keyword arguments means nothing."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords.sort(key=lambda keyword: keyword.arg or "")
    return ast.dump(tree)


def count(seen: Counter[str], verdict: Verdict, data: bytes | None, right: Function | None) -> None:
    """Count an outcome; one that is taken must be the right one."""
    seen[verdict.value if right is not None else f"{verdict.value}, rightly"] += 1
    if not verdict.stops:
        assert right is not None
        assert data is not None
        assert program(data.decode()) == program(source(right))


def told(name: str, seen: Counter[str], by_git: int) -> None:
    possible = sum(number for word, number in seen.items() if "rightly" not in word)
    carried = possible - seen["conflict"] - seen["displaced"]
    print(f"\n{name}: {carried} of {possible} carried, git alone {by_git}; {dict(seen)}")  # noqa: T201


def test_two_edits_in_one_function(tmp_path: Path):
    seen: Counter[str] = Counter()
    by_git = 0
    for base, ours, theirs in rounds(11):
        right = both(base, ours, theirs)
        functions = base, make(base, ours) or (), make(base, theirs) or ()
        sides = [source(function).encode() for function in functions]
        merged = merge_file(tmp_path, *sides)
        by_git += merged is not None
        found = judge("m.py", *sides, merged=merged)
        count(seen, found.verdict, found.data, right)
    told("edits in one function", seen, by_git)
    assert seen["woven"] > 20
    assert seen["reformatted"] > 5


def test_an_edit_in_a_function_that_upstream_moved_and_edited():
    seen: Counter[str] = Counter()
    for base, ours, theirs in rounds(12):
        right = both(base, ours, theirs)
        patched = source(make(base, theirs) or ()).encode()
        home = Candidate(None, source(make(base, ours) or ()).encode())
        moved = follow("m.py", source(base).encode(), b"import os\n", patched, {"n.py": home})
        assert moved is not None
        count(seen, moved[1].verdict, moved[1].data, right)
        assert moved[0].data == b"import os\n"
    told("edits in a moved function", seen, 0)
    assert seen["followed"] > 60


def test_a_function_that_upstream_moved_and_split():
    """The calls behind the middle are in a function of their own: those may not be carried."""
    seen: Counter[str] = Counter()
    for base, _, theirs in rounds(13):
        head, tail = base[:2], base[2:]
        split = source(head) + source(tail, "second")
        patched = source(make(base, theirs) or ()).encode()
        home = Candidate(None, split.encode())
        moved = follow("m.py", source(base).encode(), b"import os\n", patched, {"n.py": home})
        verdict = Verdict.CONFLICT if moved is None else moved[1].verdict
        seen[verdict.value] += 1
        if moved is not None and not verdict.stops:
            stayed = make(head, theirs)
            assert stayed is not None
            data = moved[1].data
            assert data is not None
            assert program(data.decode()) == program(source(stayed) + source(tail, "second"))
    told("edits in a split function", seen, 0)
