"""Look-alike code: whatever upstream does around a change, it is placed rightly or not at all.

Files are made of functions with equal bodies, which repeat equal blocks. A patch changes one block
of one function; upstream adds, removes, renames and reorders functions and blocks. What must come
out is known, because the same edit is made on upstream's file by name and number of the block.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.merging import merge_file

from pseries.model.verdicts.judge import judge
from pseries.model.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROUNDS = 150
BLOCK = (
    '    if kind == "a":\n',
    "        value = load(kind)\n",
    "        check(value)\n",
    "    else:\n",
    "        value = None\n",
    "        check(kind)\n",
)

File = dict[str, list[str]]


@dataclass(frozen=True)
class Round:
    """Three sides, and what must come out; ``None`` if nothing may."""

    base: bytes
    ours: bytes
    theirs: bytes
    expected: bytes | None
    what: str


def render(file: File) -> bytes:
    return "".join("".join(lines) for lines in file.values()).encode()


def edited(lines: list[str], block: int, line: int, how: str) -> list[str]:
    at = 1 + block * len(BLOCK) + line
    text = lines[at]
    header = text.rstrip().endswith(":")
    if how == "delete" and not header:
        return [*lines[:at], *lines[at + 1 :]]
    if how == "insert":
        indent = text[: len(text) - len(text.lstrip())] + ("    " if header else "")
        return [*lines[: at + 1], f"{indent}log(kind)\n", *lines[at + 1 :]]
    changed = text.replace("kind", "kinds").replace("None", "0").replace("(value)", "(value, 1)")
    changed = changed.replace("else:", "else:  # other")
    return [*lines[:at], changed, *lines[at + 1 :]]


def upstream(chance: random.Random, file: File, target: str, block: int) -> tuple[File, int | None]:
    """Return a changed file, and the number of the block that is the patch's now."""
    names, now = list(file), dict(file)
    at: int | None = block
    others = [name for name in names if name != target]
    for action in chance.sample(
        ["shift", "remove", "sibling", "remove target", "block", "rename", "swap"],
        chance.randint(1, 2),
    ):
        if action == "shift":
            now["# notes"] = ["# a note\n"] * chance.randint(3, 20)
            names.insert(chance.randint(0, len(names)), "# notes")
        elif action == "sibling":
            now["load_z"] = ["def load_z(kind):\n", *file[target][1:]]
            names.insert(chance.randint(0, len(names)), "load_z")
        elif action == "remove target":
            at = None
            names = [name for name in names if name != target]
        elif action == "block" and at is not None:
            where = chance.randint(0, (len(now[target]) - 4) // len(BLOCK))
            cut = 1 + where * len(BLOCK)
            now[target] = [*now[target][:cut], *BLOCK, *now[target][cut:]]
            at += where <= at
        elif action == "remove":
            names.remove(others[0])
        elif action == "rename" and others[-1] in names:
            names[names.index(others[-1])] = "load_y"
            now["load_y"] = ["def load_y(kind):\n", *now[others[-1]][1:]]
        elif action == "swap":
            chance.shuffle(names)
    return {name: now[name] for name in names}, at


def rounds() -> Iterator[Round]:
    chance = random.Random(7)  # noqa: S311 - the same files every time
    for _ in range(ROUNDS):
        repeats = chance.randint(1, 3)
        names = [f"load_{letter}" for letter in chance.sample("abcdefgh", chance.randint(2, 4))]
        rest = ["    return value\n", "\n", "\n"]
        file = {name: [f"def {name}(kind):\n", *BLOCK * repeats, *rest] for name in names}
        target, block = chance.choice(names), chance.randrange(repeats)
        line, how = chance.randrange(len(BLOCK)), chance.choice(["replace", "insert", "delete"])
        patched = {**file, target: edited(file[target], block, line, how)}
        after, at = upstream(chance, file, target, block)
        expected = None
        if at is not None:
            expected = render({**after, target: edited(after[target], at, line, how)})
        what = f"{how} line {line} of block {block} of {target}"
        yield Round(render(file), render(after), render(patched), expected, what)


def test_no_change_is_placed_wrongly(tmp_path: Path):
    seen: Counter[str] = Counter()
    by_git: Counter[str] = Counter()
    for one in rounds():
        merged = merge_file(tmp_path, one.base, one.ours, one.theirs)
        by_git["conflict" if merged is None else str(merged == one.expected)] += 1
        for known in (merged, None):
            found = judge("m.py", one.base, one.ours, one.theirs, merged=known)
            seen[found.verdict.value] += 1
            assert found.verdict is not Verdict.MERGED, one
            if found.verdict.taken:
                assert found.data == one.expected, one
    print(f"\n{2 * ROUNDS} placements: {dict(seen)}; git alone, right or wrong: {dict(by_git)}")  # noqa: T201
    assert by_git["False"] > ROUNDS // 10, "the files no longer lead a merge by lines astray"
    assert seen["moved"] + seen["clean"] > 2 * ROUNDS // 4
