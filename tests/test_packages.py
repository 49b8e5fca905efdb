"""Installs each wheel in an empty environment and uses it there. Release wheels are built from their sdists."""

import re
import shutil
import tarfile
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement

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
def sdists(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: build(project, "sdist", tmp_path_factory.mktemp("sdist")) for name, project in PROJECTS.items()}


@pytest.fixture(scope="module")
def wheels(sdists: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Builds the wheels of a release, each from its sdist."""
    built = {}
    for name, sdist in sdists.items():
        folder = tmp_path_factory.mktemp("release")
        shutil.unpack_archive(sdist, folder / "source")  # unlike tarfile's filters, available in every Python 3.11
        (source,) = (folder / "source").iterdir()
        built[name] = build(source, "wheel", folder / "wheel")
    return built


@pytest.fixture(scope="module")
def checkout_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the wheel that `pip install .` builds in a checkout."""
    return build(ROOT, "wheel", tmp_path_factory.mktemp("checkout"))


def read_metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def list_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {entry for entry in archive.namelist() if ".dist-info/" not in entry}


def list_package_files(package: Path) -> set[str]:
    found = (file for file in package.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {file.relative_to(package.parent).as_posix() for file in found}


def read_client_requirement() -> Requirement:
    """Returns the requirement of the client that pyproject.toml names for releases."""
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]
    return Requirement(targets["sdist"]["hooks"]["custom"]["requirement"])


def test_a_release_requires_the_client_of_this_repository() -> None:
    required = read_client_requirement()
    assert required.name == "copydesk-client"
    assert required.specifier.contains(copydesk_client.__version__)


def test_copydesk_requires_what_the_client_in_its_wheel_requires() -> None:
    lists = (tomllib.loads((project / "pyproject.toml").read_text("utf-8")) for project in PROJECTS.values())
    service, client = (set(declared["project"]["dependencies"]) for declared in lists)
    assert client - service == set()


@pytest.mark.deep
def test_a_release_requires_the_client_and_the_wheel_of_a_checkout_contains_it(
    wheels: dict[str, Path], checkout_wheel: Path
) -> None:
    client = list_package_files(ROOT / "client" / "copydesk_client")
    assert list_files(checkout_wheel) - list_files(wheels["copydesk"]) == client
    assert list_files(wheels["copydesk"]) - list_files(checkout_wheel) == set()
    release, checkout = read_metadata(wheels["copydesk"]), read_metadata(checkout_wheel)
    assert set(release.get_all("Requires-Dist", [])) - set(checkout.get_all("Requires-Dist", [])) == {
        str(read_client_requirement())
    }
    assert not any(line.startswith("copydesk-client") for line in checkout.get_all("Requires-Dist", []))
    for metadata in (release, checkout):
        del metadata["Requires-Dist"]
    assert release.as_string() == checkout.as_string()


@pytest.mark.deep
def test_both_places_of_metadata_in_an_sdist_agree_with_its_wheel(
    sdists: dict[str, Path], wheels: dict[str, Path]
) -> None:
    """Installers read one or the other without building: uv prefers pyproject.toml."""
    for name, sdist in sdists.items():
        with tarfile.open(sdist) as archive:
            files = archive.getnames()
            assert len(files) == len(set(files))
            texts = {Path(file).name: archive.extractfile(file) for file in files if file.count("/") == 1}
            declared, packed = texts["pyproject.toml"], texts["PKG-INFO"]
            assert declared
            assert packed
            required = tomllib.loads(declared.read().decode())["project"]["dependencies"]
            information = message_from_string(packed.read().decode())
        built = [Requirement(line) for line in read_metadata(wheels[name]).get_all("Requires-Dist", [])]
        assert {Requirement(line) for line in information.get_all("Requires-Dist", [])} == set(built)
        assert {Requirement(line) for line in required} == {
            each for each in built if each.marker is None or "extra" not in str(each.marker)
        }
        assert information["Version"] == copydesk.__version__


@pytest.mark.deep
def test_the_wheel_of_a_checkout_runs_the_demo_in_an_empty_environment(checkout_wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.link_dependencies(*read_requirements(ROOT))
    installed = environment.install(checkout_wheel)
    assert installed.returncode == 0, installed.stderr
    version = environment.run("copydesk", "--version")
    assert version.stdout.strip() == copydesk.__version__, version.stderr
    demo = environment.run("copydesk", "demo")
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "completed" in demo.stdout
    assert "whole site" in demo.stdout
    assert "review needed: http" in demo.stdout


@pytest.mark.deep
def test_a_release_is_installed_with_its_client_only(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.link_dependencies(*read_requirements(ROOT))
    refused = environment.install(wheels["copydesk"])
    assert refused.returncode != 0
    assert "copydesk-client" in refused.stderr
    installed = environment.install(*wheels.values())
    assert installed.returncode == 0, installed.stderr
    imported = environment.run(
        "python", "-c", "import copydesk.cli, copydesk_client; print(copydesk_client.__version__)"
    )
    assert imported.stdout.strip() == copydesk.__version__, imported.stderr


@pytest.mark.deep
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


@pytest.mark.deep
def test_a_wheel_whose_requirements_are_missing_is_not_installed(wheels: dict[str, Path], tmp_path: Path) -> None:
    installed = Environment(tmp_path / "venv").install(wheels["copydesk-client"])
    assert installed.returncode != 0
    assert "httpx2" in installed.stderr


@pytest.mark.drill
def test_a_checkout_installs_with_its_dependencies_from_the_index(tmp_path: Path) -> None:
    """Uses the network; all other tests of packages do not."""
    environment = Environment(tmp_path / "venv")
    installed = environment.install(ROOT, from_index=True)
    assert installed.returncode == 0, installed.stderr
    demo = environment.run("copydesk", "demo")
    assert demo.returncode == 0, demo.stdout + demo.stderr


@pytest.mark.deep
@pytest.mark.parametrize("name", PROJECTS)
def test_a_wheel_has_every_file_of_its_package_and_nothing_else(name: str, wheels: dict[str, Path]) -> None:
    package = PROJECTS[name] / name.replace("-", "_")
    files = list_package_files(package)
    if name == "copydesk":
        files |= {f"{GUIDE}/{file.relative_to(ROOT / 'docs')}" for file in (ROOT / "docs").rglob("*") if file.is_file()}
    packed = list_files(wheels[name])
    assert packed == files
    assert f"{package.name}/py.typed" in packed


@pytest.mark.deep
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


@pytest.mark.deep
@pytest.mark.parametrize("name", PROJECTS)
def test_every_link_and_image_of_the_published_readme_is_absolute(name: str, wheels: dict[str, Path]) -> None:
    metadata = read_metadata(wheels[name])
    assert metadata["Description-Content-Type"] == "text/markdown"
    readme = re.sub(r"^```.*?^```$", "", str(metadata.get_payload()), flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)", readme)
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []
