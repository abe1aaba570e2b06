"""The skills that come with the package, as a source that `deepagents` can read.

They are mounted under MOUNT, beside whatever backend the agent has, and cannot be changed there.
The names of a tool's arguments and fields are not written in them: each line `TOOLS: a, b` becomes
a table made from the schemas of the tools that were loaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

from deepagents.backends import BackendProtocol, CompositeBackend, FilesystemBackend, StateBackend
from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    FileUploadResponse,
    WriteResult,
)
from langchain_core.tools import BaseTool

MOUNT = "/skills/gateway/"
NAMES = ("temporal-analyst", "spatial-analyst")
TOOLS_LINE = re.compile(r"^TOOLS: (.+)$", re.MULTILINE)
_REFUSED = "The packaged skills cannot be changed."


def directory() -> Path:
    """Where the packaged skills are: one directory each, with a SKILL.md in it."""
    return Path(str(resources.files("deepagents_ro").joinpath("skills")))


class PackagedSkills(FilesystemBackend):
    """The packaged skills, to be read only, for an agent with these tools."""

    def __init__(self, tools: Mapping[str, BaseTool] | None = None) -> None:
        self._files = _written(_texts(tools or {}))
        super().__init__(root_dir=self._files.name, virtual_mode=True)

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


def _texts(tools: Mapping[str, BaseTool]) -> tuple[tuple[str, str], ...]:
    """Name and text of each skill."""
    found = []
    for name in NAMES:
        text = (directory() / name / "SKILL.md").read_text(encoding="utf-8")
        found.append((name, TOOLS_LINE.sub(lambda line: _tables(line.group(1), tools), text)))
    return tuple(found)


@lru_cache(maxsize=16)
def _written(texts: tuple[tuple[str, str], ...]) -> TemporaryDirectory[str]:
    """The skills as files; agents with the same tools share them."""
    files = TemporaryDirectory(prefix="deepagents-ro-skills-")
    for name, text in texts:
        place = Path(files.name) / name
        place.mkdir()
        (place / "SKILL.md").write_text(text, encoding="utf-8")
    return files


def _tables(names: str, tools: Mapping[str, BaseTool]) -> str:
    """What the schemas of the named tools say; a tool that is not loaded is named as such."""
    lines = []
    for name in (part.strip() for part in names.split(",")):
        tool = tools.get(name)
        if tool is None:
            lines.append(f"- `{name}`: not loaded. Do not call it.")
            continue
        schema = tool.args_schema if isinstance(tool.args_schema, dict) else {}
        lines.append(f"- `{name}` takes {_members(schema) or 'no arguments'}.")
        answers = _members((tool.metadata or {}).get("gateway_output_schema") or {})
        if answers:
            lines.append(f"  Its `data` has {answers}.")
        else:
            lines.append("  It does not say which fields its `data` has: look at an answer.")
    return "\n".join(lines)


def _members(schema: Mapping[str, object]) -> str:
    """`a` (number), `b` (string, optional)"""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return ""
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    told = []
    for name, member in properties.items():
        kind = member.get("type") if isinstance(member, dict) else None
        words = [kind] if isinstance(kind, str) else []
        if name not in required:
            words.append("optional")
        told.append(f"`{name}` ({', '.join(words)})" if words else f"`{name}`")
    return ", ".join(told)


def mounted(
    backend: BackendProtocol | None, tools: Mapping[str, BaseTool] | None = None
) -> BackendProtocol:
    """`backend` (or a new state backend) with the packaged skills at MOUNT."""
    skills = PackagedSkills(tools)
    if isinstance(backend, CompositeBackend):
        routes = {MOUNT: skills, **backend.routes}
        return CompositeBackend(backend.default, routes, artifacts_root=backend.artifacts_root)
    return CompositeBackend(backend or StateBackend(), {MOUNT: skills})
