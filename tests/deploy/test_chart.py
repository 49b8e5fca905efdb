"""The Helm chart: linted and rendered by Helm, validated against Kubernetes' schemas and our own rules."""

import json
import re
from functools import cache
from typing import Any

import kubernetes_validate
import pytest
import yaml

from copydesk import __version__
from copydesk.core.settings import ENV_PREFIX, Settings, env_variable
from copydesk.jobs.execution.worker import STOP_TIMEOUT_SECONDS
from copydesk.web.server import GRACE_SECONDS
from tests.deploy.chart import (
    CHART,
    INGRESS_VALUES,
    MINIMAL_VALUES,
    SECRET_VALUES,
    VARIANTS,
    Manifest,
    Values,
    find_deployment,
    list_pod_specs,
    manifests_of_kind,
    render,
    run_helm,
)

OLDEST, NEWEST = "1.27", "1.37"
NOT_KUBERNETES_OWN = {"PodMonitor"}

each_variant = pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS.keys())


@each_variant
def test_helm_lint_passes(values: Values) -> None:
    done = run_helm("lint", values)
    assert done.returncode == 0, done.stdout


@pytest.mark.deep
@pytest.mark.parametrize(
    ("variant", "version"),
    [*((variant, NEWEST) for variant in VARIANTS), ("everything on", OLDEST), ("secret given", OLDEST)],
)
def test_kubernetes_knows_every_field(variant: str, version: str) -> None:
    manifests = [manifest for manifest in render(VARIANTS[variant]) if manifest["kind"] not in NOT_KUBERNETES_OWN]
    assert len(manifests) >= 6
    for manifest in manifests:
        validate_manifest(json.dumps(manifest, sort_keys=True), version)


@cache
def validate_manifest(manifest: str, version: str) -> None:
    """Validates a manifest. Cached, because most manifests are the same in many variants."""
    kubernetes_validate.validate(json.loads(manifest), version, strict=True)


@each_variant
def test_every_container_is_confined_and_bounded(values: Values) -> None:
    pods = list(list_pod_specs(render(values)))
    assert pods
    for pod in pods:
        assert pod["automountServiceAccountToken"] is False
        context = pod["securityContext"]
        assert (context["runAsNonRoot"], context["runAsUser"]) == (True, 10001)
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"]["cpu"]


@each_variant
def test_the_image_is_of_this_version(values: Values) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["appVersion"] == __version__
    images = {container["image"] for pod in list_pod_specs(render(values)) for container in pod["containers"]}
    assert [image.rpartition(":")[2] for image in images] == [__version__]


@each_variant
def test_selectors_match_the_pods_of_one_component(values: Values) -> None:
    manifests = render(values)
    labels = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in manifests_of_kind(manifests, "Deployment")
    }
    assert len(labels) == 2
    for manifest in manifests:
        selector = find_selector(manifest)
        if selector is not None:
            assert "app.kubernetes.io/version" not in selector, "it would not find the pods of the next version"
            found = [name for name, own in labels.items() if selector.items() <= own.items()]
            part = manifest["metadata"]["labels"]["app.kubernetes.io/component"]
            assert [name.rpartition("-")[2] for name in found] == [part], manifest["metadata"]["name"]


def find_selector(manifest: Manifest) -> dict[str, str] | None:
    spec = manifest.get("spec", {})
    selector: dict[str, Any] | None = spec.get("selector") or spec.get("podSelector")
    return None if selector is None else selector.get("matchLabels", selector)


@each_variant
def test_port_names_match_where_they_are_used(values: Values) -> None:
    manifests = render(values)
    ports = {}
    for part in ("serve", "worker"):
        (container,) = find_deployment(manifests, part)["spec"]["template"]["spec"]["containers"]
        ports[part] = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert container[probe]["httpGet"]["port"] in ports[part]
    (service,) = manifests_of_kind(manifests, "Service")
    assert {port["targetPort"] for port in service["spec"]["ports"]} == {"http"} < ports["serve"]
    for monitor in manifests_of_kind(manifests, "PodMonitor"):
        part = monitor["metadata"]["labels"]["app.kubernetes.io/component"]
        assert {point["port"] for point in monitor["spec"]["podMetricsEndpoints"]} == {"metrics"} <= ports[part]
    for policy in manifests_of_kind(manifests, "NetworkPolicy"):
        part = policy["metadata"]["labels"]["app.kubernetes.io/component"]
        assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} <= ports[part]


@pytest.mark.parametrize(("part", "ready"), [("serve", "/readyz?without=analytics"), ("worker", "/readyz")])
def test_unavailable_database_makes_pods_unready_but_restarts_none(part: str, ready: str) -> None:
    (container,) = find_deployment(render(MINIMAL_VALUES), part)["spec"]["template"]["spec"]["containers"]
    paths = {probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "readiness", "liveness")}
    assert paths == {"startup": "/healthz", "readiness": ready, "liveness": "/healthz"}


@pytest.mark.parametrize("seconds", [0, 600])
def test_pod_has_time_to_drain_and_release_jobs(seconds: int) -> None:
    manifests = render({**MINIMAL_VALUES, "serve": {"drainSeconds": seconds}, "worker": {"drainSeconds": seconds}})
    deployments = manifests_of_kind(manifests, "Deployment")
    assert deployments
    for each in deployments:
        pod = each["spec"]["template"]["spec"]
        assert read_environment(pod)["COPYDESK_DRAIN_SECONDS"] == str(seconds)
        assert pod["terminationGracePeriodSeconds"] > seconds + GRACE_SECONDS + STOP_TIMEOUT_SECONDS


def read_environment(pod: Manifest) -> dict[str, str | None]:
    return {each["name"]: each.get("value") for container in pod["containers"] for each in container.get("env", ())}


@each_variant
def test_every_variable_is_a_setting(values: Values) -> None:
    manifests = render(values)
    names = {name for pod in list_pod_specs(manifests) for name in read_environment(pod)}
    names |= {name for manifest in manifests_of_kind(manifests, "ConfigMap") for name in manifest["data"]}
    assert {"COPYDESK_DATABASE_URL", "COPYDESK_BASE_URL", "COPYDESK_METRICS_PORT"} <= names
    ours = {name for name in names if name.startswith(ENV_PREFIX)}
    assert ours - {env_variable(field) for field in Settings.model_fields} == set()


def test_secrets_are_only_in_the_secret_object() -> None:
    manifests = render(VARIANTS["secret given"])
    (secret,) = manifests_of_kind(manifests, "Secret")
    assert secret["stringData"] == SECRET_VALUES
    others = json.dumps([manifest for manifest in manifests if manifest["kind"] != "Secret"])
    assert [name for name, value in SECRET_VALUES.items() if value in others] == []
    assert manifests_of_kind(render(MINIMAL_VALUES), "Secret") == []


def test_secret_settings_are_refused_as_plain_values() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    refused = schema["properties"]["settings"]["propertyNames"]["not"]["anyOf"][0]["pattern"]
    secrets = {name for name, field in Settings.model_fields.items() if not field.repr} | {"database_url"}
    assert "secret_key" in secrets
    assert [name for name in secrets if not re.search(refused, env_variable(name))] == []


@pytest.mark.deep
@pytest.mark.parametrize(
    ("value", "written"), [(5_000_000, "5000000"), (2.5, "2.5"), (True, "true"), ("openai:gpt-5", "openai:gpt-5")]
)
def test_setting_is_rendered_unchanged(value: object, written: str) -> None:
    (settings,) = manifests_of_kind(render({**MINIMAL_VALUES, "settings": {"COPYDESK_JOB_TOKENS": value}}), "ConfigMap")
    assert settings["data"]["COPYDESK_JOB_TOKENS"] == written


def test_extra_volume_is_mounted_in_server_and_worker() -> None:
    for part in ("serve", "worker"):
        pod = find_deployment(render(VARIANTS["everything on"]), part)["spec"]["template"]["spec"]
        assert {"name": "certificates", "configMap": {"name": "certificates"}} in pod["volumes"]
        (container,) = pod["containers"]
        assert {mount["name"] for mount in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}


def test_model_keys_reach_only_workers_and_tokens_also_servers() -> None:
    manifests = render({**MINIMAL_VALUES, "worker": {"existingSecret": "models"}})
    assert "models" in json.dumps(find_deployment(manifests, "worker"))
    assert "models" not in json.dumps(find_deployment(manifests, "serve"))
    for part in ("serve", "worker"):
        (container,) = find_deployment(manifests, part)["spec"]["template"]["spec"]["containers"]
        assert {"secretRef": {"name": "desk"}} in container["envFrom"]


@pytest.mark.parametrize("part", ["serve", "worker"])
def test_replica_count_is_omitted_with_an_autoscaler(part: str) -> None:
    manifests = render(VARIANTS["autoscaling"])
    scaled = find_deployment(manifests, part)
    assert "replicas" not in scaled["spec"]
    targets = [
        each["spec"]["scaleTargetRef"]["name"] for each in manifests_of_kind(manifests, "HorizontalPodAutoscaler")
    ]
    assert scaled["metadata"]["name"] in targets


def test_rolling_update_keeps_old_servers_until_new_ones_are_ready() -> None:
    strategy = find_deployment(render(MINIMAL_VALUES), "serve")["spec"]["strategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}


@pytest.mark.parametrize(
    "change",
    [
        {"settings": {"COPYDESK_JOB_MINUTES": 5}},
        {"secret": {"values": {**SECRET_VALUES, "COPYDESK_DATABASE_URL": "postgresql://other.example.org/desk"}}},
    ],
)
def test_changed_setting_or_secret_restarts_the_pods(change: Values) -> None:
    before = VARIANTS["secret given"]
    marks = [find_deployment(render(values), "worker")["spec"]["template"] for values in (before, {**before, **change})]
    assert marks[0]["metadata"]["annotations"] != marks[1]["metadata"]["annotations"]


def test_an_ingress_does_not_buffer_the_events_of_jobs() -> None:
    (ingress,) = manifests_of_kind(render(VARIANTS["ingress"]), "Ingress")
    assert ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-buffering"] == "off"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"secret": {"existing": "desk"}}, "baseUrl"),
        ({"baseUrl": "desk.example.org", "secret": {"existing": "desk"}}, "baseUrl"),
        ({"baseUrl": "https://desk.example.org"}, "Name a Secret in secret.existing"),
        ({**MINIMAL_VALUES, "secret": {"existing": "desk", "values": SECRET_VALUES}}, "not both"),
        (
            {**MINIMAL_VALUES, "secret": {"values": {**SECRET_VALUES, "COPYDESK_ANALYTICS_URL": ""}}},
            "COPYDESK_ANALYTICS_URL",
        ),
        ({**MINIMAL_VALUES, "settings": {"COPYDESK_SECRET_KEY": "ZQ=="}}, "COPYDESK_SECRET_KEY"),
        ({**MINIMAL_VALUES, "settings": {"OPENAI_API_KEY": "x"}}, "OPENAI_API_KEY"),
        ({**MINIMAL_VALUES, "settings": {"COPYDESK_DRAIN_SECONDS": 1}}, "COPYDESK_DRAIN_SECONDS"),
        ({**MINIMAL_VALUES, "ingress": {**INGRESS_VALUES, "host": ""}}, "host"),
        ({**MINIMAL_VALUES, "worker": {"replica": 3}}, "replica"),
        ({**MINIMAL_VALUES, "worker": {"resources": {"limits": {"memory": None}}}}, "memory"),
    ],
)  # fmt: skip
def test_values_that_cannot_work_are_refused(values: Values, said: str) -> None:
    done = run_helm("template", values)
    assert done.returncode != 0
    assert said in done.stderr
