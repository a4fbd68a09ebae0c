"""A git repository of ours with a folder of files that a person edits.

It borrows the objects of the store, so it is small and made at once. Whatever attributes or
settings say, no byte changes between file and object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pseries.git import process
from pseries.git.objects import listed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pseries.git.objects import Tree

_ATTRIBUTES = "* -text -eol -filter -ident -working-tree-encoding\n"
"""No attribute of the tree may change bytes between file and object (gitattributes(5))."""
_IGNORED = "__pycache__/\n"


class Workspace:
    """A repository and its worktree; git runs sealed in it as everywhere.

    Args:
        folder: the top of the worktree.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git_dir = folder / ".git"

    def prepare(self, config: str, branch: str, borrowed: Path | None) -> None:
        """Make the repository in an existing folder: no commit, no file.

        Args:
            config: its ``config`` file.
            branch: the full name of the ref that HEAD stands for.
            borrowed: a bare repository whose objects can be read too (git's alternates).
        """
        for name in ("objects/info", "refs/heads", "info"):
            (self.git_dir / name).mkdir(parents=True)
        (self.git_dir / "HEAD").write_text(f"ref: {branch}\n")
        (self.git_dir / "config").write_text(config)
        (self.git_dir / "info/attributes").write_text(_ATTRIBUTES)
        (self.git_dir / "info/exclude").write_text(_IGNORED)
        if borrowed is not None:
            alternates = self.git_dir / "objects/info/alternates"
            alternates.write_text(f"{(borrowed / 'objects').absolute()}\n")

    def git(
        self,
        *arguments: str,
        stdin: bytes = b"",
        accept: tuple[int, ...] = (0,),
        extra: Mapping[str, str] | None = None,
    ) -> process.Completed:
        """Run git in the worktree."""
        return process.run(
            arguments, git_dir=self.git_dir, cwd=self.folder, stdin=stdin, accept=accept,
            extra={
                "GIT_WORK_TREE": str(self.folder), "GIT_LITERAL_PATHSPECS": "1", **(extra or {}),
            },
        )  # fmt: skip

    def entries(self, *command: str) -> Tree:
        """Return what a command that lists a tree says, by path."""
        return dict(listed(self.git(*command).stdout))

    def put(self, path: str, mode: int, data: bytes) -> None:
        """Write a file of the worktree."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(0o755 if mode & 0o100 else 0o644)
