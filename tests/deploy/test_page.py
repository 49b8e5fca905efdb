"""The examples of docs/deploy.md for copying: values, a Job, the commands of a move."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from tests.deploy.chart import find_deployment, manifests_of_kind, render
from tests.support import clickhouse
from tests.support.filled_data import KEY, copy_data
from tests.support.postgres import new_database

PAGE = (Path(__file__).parents[2] / "docs/deploy.md").read_text("utf-8")


def load_documented_manifest(name: str) -> dict[str, Any]:
    (text,) = re.findall(rf"^```yaml\n# {name}\n(.*?)^```$", PAGE, re.M | re.S)
    return dict(yaml.safe_load(text))


@pytest.mark.parametrize("version", ["1.27", "1.37"])
def test_kubernetes_knows_every_field_of_the_job(version: str) -> None:
    kubernetes_validate.validate(load_documented_manifest("job.yaml"), version, strict=True)


def test_documented_job_has_the_confinement_and_settings_of_the_chart() -> None:
    manifests = render(load_documented_manifest("values.yaml"))
    theirs = find_deployment(manifests, "worker")["spec"]["template"]["spec"]
    job = load_documented_manifest("job.yaml")["spec"]["template"]["spec"]
    (container,), (other,) = job["containers"], theirs["containers"]
    assert job["automountServiceAccountToken"] is theirs["automountServiceAccountToken"]
    assert job["securityContext"].items() <= theirs["securityContext"].items()
    for field in ("image", "securityContext"):
        assert container[field] == other[field]
    (settings,) = manifests_of_kind(manifests, "ConfigMap")
    assert container["envFrom"] == [
        {"configMapRef": {"name": settings["metadata"]["name"]}},
        {"secretRef": {"name": "desk"}},
    ]


@pytest.mark.drill
def test_documented_migration_commands_work(tmp_path: Path) -> None:
    old, url, views = tmp_path / "old", new_database(), clickhouse.new_database()
    copy_data(old)
    (script,) = re.findall(r"--entrypoint sh app -c '(.*?)'$", PAGE, re.M | re.S)
    sh = shutil.which("sh")
    assert sh is not None
    done = subprocess.run(
        [sh, "-c", script.replace("/old", str(old))],
        env={
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COPYDESK_DATABASE_URL": url,
            "COPYDESK_ANALYTICS_URL": views,
            "COPYDESK_SECRET_KEY": KEY,
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Counts and checksums match" in done.stdout
    desk = open_desk(Settings(data=tmp_path, database_url=url, analytics_url=views, secret_key=(KEY,)))
    (project,) = desk.projects.all()
    assert desk.store.count_visitors_by_page(project.id).totals.total > 0
    desk.close()
