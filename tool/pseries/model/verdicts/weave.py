"""Merging one stretch of Python by words, where a merge of the file ends in a conflict.

Three readings must agree: the merge of the text, first line by line without minding neighbours,
then token by token, the merge of the syntax trees (:mod:`pseries.model.verdicts.structure`), and
the tree of the merged text. Tokens alone would put words together that do not belong together;
trees alone have no layout and no comments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pseries.model import symbols
from pseries.model.verdicts import align, structure

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Sequence

    from pseries.model.verdicts.structure import Shape

    _Step = tuple[align.Span, Sequence["Token"]]

LONGEST = 200_000
"""Bytes of a stretch beyond which nothing is woven: that is a rewritten file, not a hunk."""

_TOKEN = re.compile(
    r"""
    (?P<gap>(?:[ \t\f\r\n]|\\\r?\n)*)
    (?P<text>
        [A-Za-z]{0,2}(?:
            \"\"\"(?:[^"\\]|\\[\s\S]|"(?!""))*\"\"\"
          | '''(?:[^'\\]|\\[\s\S]|'(?!''))*'''
          | "(?:[^"\\\n]|\\[\s\S])*"
          | '(?:[^'\\\n]|\\[\s\S])*'
        )
      | \#[^\n\r]*
      | [A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*
      | \.?[0-9](?:[eE][+-]|[A-Za-z0-9_.])*
      | \*\*=?|//=?|>>=?|<<=?|->|:=|\.\.\.|[-+*/%@&|^=!<>]=
      | [\s\S]
      | \Z
    )
    """,
    re.VERBOSE,
)


_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class Token:
    """A token and the blanks, line ends and continuations before it."""

    gap: str
    text: str


class Weave(Enum):
    """How two changes to one stretch relate."""

    HELD = "ours holds theirs"
    LAYOUT = "ours changed layout and comments only"
    WOVEN = "both changed it, independently"


@dataclass(frozen=True, slots=True)
class Woven:
    """A merged stretch and how it came about."""

    how: Weave
    text: bytes


def tokens(text: str) -> list[Token]:
    """Split a stretch of Python; joined again, gaps and texts are ``text``.

    The lexer knows just enough to keep strings and comments whole, and takes any fragment.
    """
    found: list[Token] = []
    for match in _TOKEN.finditer(text):
        found.append(Token(match["gap"], match["text"]))
        if not match["text"]:
            break  # the end, once
    return found


def weave(base: bytes, ours: bytes, theirs: bytes) -> Woven | None:
    """Merge one stretch of Python that both sides changed; ``None`` is a conflict.

    Args:
        base: whole logical lines, which parse by themselves, perhaps with a body put behind a
            header or a block around them.
        ours: the same stretch as upstream has it.
        theirs: the same stretch as the patch has it.

    Raises:
        Unreadable: one of the three is no piece of Python by itself; a larger one may be.
    """
    if max(len(base), len(ours), len(theirs)) > LONGEST:
        return None
    old, mine, other = shapes(base, ours, theirs)
    try:
        # of comments and layout trees say nothing: a patch that changes only those needs its tokens
        wanted = mine if old == other else structure.merge(old, mine, other)
    except structure.Clash:
        return None
    if wanted == mine and old != other:
        return Woven(Weave.HELD, ours)
    text = _merged(base, ours, theirs, _lines)
    if text is None:
        text = _merged(base, ours, theirs, tokens)
    if text == ours:
        return Woven(Weave.HELD, ours)
    if old == mine and old != other and _indents(base)[:1] == _indents(ours)[:1]:
        return Woven(Weave.LAYOUT, theirs if text is None else text)
    return None if text is None else Woven(Weave.WOVEN, text)


class Unreadable(Exception):
    """A stretch is no piece of Python by itself."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """What is put around a stretch so that it parses: blocks, a beginning, a body for its header.

    The same for all sides, or what is around them would look like a change.
    """

    levels: tuple[str, ...]
    first: str
    last: str

    def around(self, fragment: bytes, begin: str, end: str) -> bytes:
        """Return the stretch with its surroundings."""
        before = "".join(f"{level}if 1:\n" for level in self.levels)
        before += "".join(f"{self.first}{line}\n" for line in begin.split("\n"))
        after = f"{self.last} {end}\n" if end else ""
        joint = b"" if fragment.endswith(b"\n") or not fragment else b"\n"
        return before.encode() + fragment + joint + after.encode()


_BEGINNINGS = ("0", "if 1:\n pass", "try:\n pass")
"""A statement to begin with, or what a stretch that begins with ``else`` or ``except`` goes on."""


def shapes(*fragments: bytes) -> list[Shape]:
    """Return the shapes of sides of one stretch of whole logical lines.

    A stretch in a block gets blocks around it, one for each level of indentation that its lines
    stand on; a header without its body gets one. Raises :class:`Unreadable`.
    """
    frames = _frames([_indents(fragment) for fragment in fragments])
    for begin in _BEGINNINGS:
        for end in ("", "pass"):
            texts = [
                frame.around(fragment, begin, end)
                for frame, fragment in zip(frames, fragments, strict=True)
            ]
            trees = _trees(texts)
            if trees is not None:
                return [structure.of(tree) for tree in trees]
    raise Unreadable


def _trees(texts: Sequence[bytes]) -> list[ast.Module] | None:
    trees = []
    for text in texts:
        # the line that names the encoding is elsewhere: what is not UTF-8 counts as Latin-1
        tree = symbols.parse(text) or symbols.parse(text.decode("latin-1").encode())
        if tree is None:
            return None
        trees.append(tree)
    return trees


def _frames(indents: Sequence[list[str]]) -> list[_Frame]:
    firsts = {depths[0] for depths in indents if depths} or {""}
    if len(firsts) == 1:
        (first,) = firsts
        every = [depth for depths in indents for depth in depths]
        levels = _levels(first, every)
        return [_Frame(levels, first, depths[-1] if depths else first) for depths in indents]
    frames = []
    for depths in indents:
        first = depths[0] if depths else ""
        frames.append(_Frame(_levels(first, depths), first, depths[-1] if depths else first))
    if len({len(frame.levels) for frame in frames}) > 1:
        raise Unreadable
    return frames


def _levels(first: str, depths: Sequence[str]) -> tuple[str, ...]:
    """Return the levels of indentation outside of the first line's."""
    outside = {"", *(depth for depth in depths if len(depth) < len(first))} - {first}
    return tuple(sorted(outside, key=len))


def _indents(fragment: bytes) -> list[str]:
    """Return what each logical line is indented by, comments aside."""
    found: list[str] = []
    depth = 0
    fresh = True
    for token in tokens(fragment.decode("latin-1")):
        if "\n" in token.gap.replace("\\\r\n", "").replace("\\\n", "") and not depth:
            fresh = True
        if token.text.startswith("#") or not token.text:
            continue
        if fresh:
            found.append(token.gap.rpartition("\n")[2])
            fresh = False
        depth += (token.text in {"(", "[", "{"}) - (token.text in {")", "]", "}"})
    return found


def _lines(text: str) -> list[Token]:
    """Split a stretch into its lines, as tokens."""
    return [Token("", line) for line in _LINE.findall(text)]


def _merged(
    base: bytes, ours: bytes, theirs: bytes, split: Callable[[str], list[Token]]
) -> bytes | None:
    """Return the merge piece by piece, if it is clean and its tree is the merge of the trees."""
    # Latin-1 maps every byte to one character and back; only ASCII means anything to the lexer
    # and a line end in front makes the first line one like the others
    old, mine, other = (split("\n" + side.decode("latin-1")) for side in (base, ours, theirs))
    texts: list[bytes] = []
    for upward in (False, True):
        merged = _merge(old, mine, other, upward=upward)
        if merged is None:
            continue
        text = "".join(token.gap + token.text for token in merged)[1:].encode("latin-1")
        try:
            before, one, two, result = shapes(base, ours, theirs, text)
            if result == (one if before == two else structure.merge(before, one, two)):
                texts.append(text)
        except (Unreadable, structure.Clash):
            continue
    # trees see no comments, so words that could stand in two places must not be trusted
    return texts[0] if texts and all(text == texts[0] for text in texts) else None


def _merge(
    base: Sequence[Token], ours: Sequence[Token], theirs: Sequence[Token], *, upward: bool
) -> list[Token] | None:
    """Merge piece by piece; where both sides put some at one point, ours come first.

    That is only a proposal: the caller compares the tree of the result with the tree it must have.
    """
    words, mine_words, other_words = (
        [token.text.encode("latin-1") for token in side] for side in (base, ours, theirs)
    )
    mine = align.align(words, mine_words, upward=upward)
    other = align.align(words, other_words, upward=upward)
    steps = _steps(
        [(edit.old, ours[slice(*edit.new)]) for edit in align.edits(mine, len(ours))],
        [
            (edit.old, _in_layout(theirs[slice(*edit.new)], edit.old, base, ours, mine))
            for edit in align.edits(other, len(theirs))
        ],
    )
    if steps is None:
        return None
    merged: list[Token] = []
    done = 0
    for (low, high), new in [*steps, ((len(base), len(base)), [])]:
        for at in range(done, low):
            gap = _gap(base[at].gap, ours[mine[at]].gap, theirs[other[at]].gap)
            merged.append(Token(gap, base[at].text))
        merged += new
        done = high
    return merged


def _in_layout(
    new: Sequence[Token],
    span: align.Span,
    base: Sequence[Token],
    ours: Sequence[Token],
    mine: Sequence[int],
) -> Sequence[Token]:
    """Return what the patch puts before a word of a line with the blanks that upstream has there.

    Those at the start of a line are indentation and mean something.
    """
    at = span[0]
    if not new or at != span[1] or at == len(base) or mine[at] < 0 or _only_comments(new[:1]):
        return new
    first, gap = new[0], base[at].gap
    if first.gap != gap or "\n" in gap:
        return new
    return [Token(ours[mine[at]].gap, first.text), *new[1:]]


def _steps(mine: Sequence[_Step], other: Sequence[_Step]) -> list[_Step] | None:
    """Return the edits of both sides in order, ``None`` if two of them overlap."""
    steps: list[_Step] = []
    for span, new in sorted([*mine, *other], key=lambda step: step[0]):  # stable: ours first
        if steps:
            before, same = steps[-1]
            if span == before and [one.text for one in same] == [one.text for one in new]:
                continue
            if span[0] < before[1] or (
                span == before and (_only_comments(same) or _only_comments(new))
            ):
                return None  # a comment belongs to a line, and trees do not tell to which
        steps.append((span, new))
    return steps


def _only_comments(new: Sequence[Token]) -> bool:
    return all(token.text.lstrip().startswith("#") for token in new)


def _gap(base: str, ours: str, theirs: str) -> str:
    """Return the blanks before a token that neither side changed: upstream's layout wins."""
    return theirs if ours == base else ours
