"""Makes source distributions, and so the wheels that are built from them, require the package copydesk-client.

A wheel that is built in a checkout contains the client of `client/` instead, so that it can be installed although
nothing is published. A source distribution has no `client/`.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIST_START = "\ndependencies = [\n"


class ClientRequirement(BuildHookInterface[Any]):
    """Adds the requirement that pyproject.toml names for this hook."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the requirement to PKG-INFO and to a copy of pyproject.toml, which is packed instead of the original."""
        original = Path(self.root, "pyproject.toml")
        self.folder = TemporaryDirectory()
        if not Path(self.root, "client").is_dir():
            return  # this is a source distribution: its pyproject.toml has the requirement
        requirement = self.config["requirement"]
        before, found, after = original.read_text("utf-8").partition(LIST_START)
        if not found:
            raise ValueError(f"{original} has no line 'dependencies = ['.")
        copy = Path(self.folder.name, "pyproject.toml")
        copy.write_text(f'{before}{LIST_START}    "{requirement}",\n{after}', "utf-8")
        build_data["dependencies"].append(requirement)
        del build_data["force_include"][str(original)]
        build_data["force_include"][str(copy)] = "pyproject.toml"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self.folder.cleanup()
