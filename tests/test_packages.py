"""Installs each wheel in an empty environment and uses it there; builds both from their sdists too."""

import re
import shutil
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

import copydesk
import copydesk_client
from tests.support.packages import ROOT, Environment, build, read_requirements
from tests.support.service import Service

PROJECTS = {"copydesk": ROOT, "copydesk-client": ROOT / "client"}
GUIDE = "copydesk/web/dashboard/guide/pages"
CALL = """
from copydesk_client import Client
with Client() as client:
    job = client.wait(client.create_job("Replace colour with color on every page.")["id"])
    print(job["status"], job["prLink"] is not None, client.visitors()["totals"])
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: build(project, "wheel", tmp_path_factory.mktemp("wheel")) for name, project in PROJECTS.items()}


def read_metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def test_the_wheel_runs_the_demo_in_an_empty_environment(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.link_dependencies(*(set(read_requirements(ROOT)) - {"copydesk-client"}))
    installed = environment.install(*wheels.values())
    assert installed.returncode == 0, installed.stderr
    version = environment.run("copydesk", "--version")
    assert version.stdout.strip() == copydesk.__version__, version.stderr
    demo = environment.run("copydesk", "demo")
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "completed" in demo.stdout
    assert "whole site" in demo.stdout
    assert "review needed: http" in demo.stdout


def test_client_wheel_works_in_an_empty_environment(wheels: dict[str, Path], tmp_path: Path, service: Service) -> None:
    environment = Environment(tmp_path / "venv")
    environment.link_dependencies(*read_requirements(ROOT / "client"))
    installed = environment.install(wheels["copydesk-client"])
    assert installed.returncode == 0, installed.stderr
    called = environment.run(
        "python", "-c", CALL,
        COPYDESK_URL=service.url, COPYDESK_API_KEY=service.key, COPYDESK_PROJECT=service.project.id,
    )  # fmt: skip
    assert called.stdout == "completed True {'human': 0, 'ai': 0, 'total': 0}\n", called.stderr


def test_a_wheel_whose_requirements_are_missing_is_not_installed(wheels: dict[str, Path], tmp_path: Path) -> None:
    installed = Environment(tmp_path / "venv").install(wheels["copydesk-client"])
    assert installed.returncode != 0
    assert "httpx2" in installed.stderr


@pytest.mark.drill
def test_the_wheel_installs_with_its_dependencies_from_the_index(wheels: dict[str, Path], tmp_path: Path) -> None:
    """Uses the network; all other tests of packages do not."""
    environment = Environment(tmp_path / "venv")
    installed = environment.install(*wheels.values(), from_index=True)
    assert installed.returncode == 0, installed.stderr
    demo = environment.run("copydesk", "demo")
    assert demo.returncode == 0, demo.stdout + demo.stderr


@pytest.mark.parametrize("name", PROJECTS)
def test_the_sdist_builds_the_same_wheel(name: str, wheels: dict[str, Path], tmp_path: Path) -> None:
    sdist = build(PROJECTS[name], "sdist", tmp_path / "sdist")
    shutil.unpack_archive(sdist, tmp_path / "source")  # unlike tarfile's filters, available in every Python 3.11
    (source,) = (tmp_path / "source").iterdir()
    rebuilt = build(source, "wheel", tmp_path / "wheel")
    with zipfile.ZipFile(rebuilt) as again, zipfile.ZipFile(wheels[name]) as first:
        assert again.namelist() == first.namelist()
        assert read_metadata(rebuilt).as_string() == read_metadata(wheels[name]).as_string()


@pytest.mark.parametrize("name", PROJECTS)
def test_a_wheel_has_every_file_of_its_package_and_nothing_else(name: str, wheels: dict[str, Path]) -> None:
    package = PROJECTS[name] / name.replace("-", "_")
    files = {
        file.relative_to(package.parent).as_posix()
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    if name == "copydesk":
        files |= {f"{GUIDE}/{file.relative_to(ROOT / 'docs')}" for file in (ROOT / "docs").rglob("*") if file.is_file()}
    with zipfile.ZipFile(wheels[name]) as archive:
        packed = {entry for entry in archive.namelist() if ".dist-info/" not in entry}
    assert packed == files
    assert f"{package.name}/py.typed" in packed


@pytest.mark.parametrize("name", PROJECTS)
def test_metadata_is_complete(name: str, wheels: dict[str, Path]) -> None:
    metadata = read_metadata(wheels[name])
    classifiers = metadata.get_all("Classifier", [])
    for version in ("3.11", "3.12", "3.13", "3.14"):
        assert f"Programming Language :: Python :: {version}" in classifiers
    assert "Typing :: Typed" in classifiers
    assert metadata["Version"] == copydesk.__version__ == copydesk_client.__version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Author"]
    assert metadata["Keywords"]
    assert metadata["Summary"]
    labels = {line.partition(",")[0] for line in metadata.get_all("Project-URL", [])}
    assert {"Homepage", "Documentation", "Source", "Changelog"} <= labels


@pytest.mark.parametrize("name", PROJECTS)
def test_every_link_and_image_of_the_published_readme_is_absolute(name: str, wheels: dict[str, Path]) -> None:
    metadata = read_metadata(wheels[name])
    assert metadata["Description-Content-Type"] == "text/markdown"
    readme = re.sub(r"^```.*?^```$", "", str(metadata.get_payload()), flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)", readme)
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []
