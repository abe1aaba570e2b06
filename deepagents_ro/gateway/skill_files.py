"""The skills that come with the package, as a source that `deepagents` can read.

They are mounted under MOUNT, beside whatever backend the agent has, and cannot be changed there.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from deepagents.backends import BackendProtocol, CompositeBackend, FilesystemBackend, StateBackend
from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    FileUploadResponse,
    WriteResult,
)

MOUNT = "/skills/gateway/"
NAMES = ("temporal-analyst", "spatial-analyst")
_REFUSED = "The packaged skills cannot be changed."


def directory() -> Path:
    """Where the packaged skills are: one directory each, with a SKILL.md in it."""
    return Path(str(resources.files("deepagents_ro").joinpath("skills")))


class PackagedSkills(FilesystemBackend):
    """The packaged skills, to be read only."""

    def __init__(self) -> None:
        super().__init__(root_dir=directory(), virtual_mode=True)

    def write(self, file_path: str, content: str) -> WriteResult:
        """Refused."""
        return WriteResult(error=_REFUSED)

    def edit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        """Refused."""
        return EditResult(error=_REFUSED)

    def delete(self, file_path: str) -> DeleteResult:
        """Refused."""
        return DeleteResult(error=_REFUSED)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Refused."""
        return [FileUploadResponse(path=path, error="permission_denied") for path, _data in files]


def mounted(backend: BackendProtocol | None) -> BackendProtocol:
    """`backend` (or a new state backend) with the packaged skills at MOUNT."""
    if isinstance(backend, CompositeBackend):
        routes = {MOUNT: PackagedSkills(), **backend.routes}
        return CompositeBackend(backend.default, routes, artifacts_root=backend.artifacts_root)
    return CompositeBackend(backend or StateBackend(), {MOUNT: PackagedSkills()})
