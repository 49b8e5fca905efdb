"""The same six requests in each log format, laid out as its vendor documents it: two people and one assistant read.

`SAMPLES` has a log for each format. Each must give 2 people and 1 AI on /guide, and 1 person on /install.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Safari/537.36"
)
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:146.0) Gecko/20100101 Firefox/146.0"
ASSISTANT = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot"
HOST = "docs.example.com"
NOON = datetime(2026, 11, 14, 12, tzinfo=UTC)
DAY = 20_771
"""2026-11-14, in days since 1970."""


class Request(NamedTuple):
    address: str
    agent: str
    path: str
    status: int = 200
    second: int = 0
    method: str = "GET"
    referrer: str = "https://search.example.com/?q=setup"

    @property
    def time(self) -> datetime:
        return NOON + timedelta(seconds=self.second)

    @property
    def clf_time(self) -> str:
        return self.time.strftime("%d/%b/%Y:%H:%M:%S +0000")

    @property
    def iso_time(self) -> str:
        return self.time.strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def milliseconds(self) -> int:
        return int(self.time.timestamp() * 1000)


REQUESTS = (
    Request("203.0.113.9", CHROME, "/guide/?x=1", second=0),
    Request("203.0.113.9", CHROME, "/install", second=1),
    Request("203.0.113.9", CHROME, "/assets/app.css", second=2),
    Request("198.51.100.7", FIREFOX, "/guide", second=3),
    Request("198.51.100.7", FIREFOX, "/gone", status=404, second=4),
    Request("192.0.2.44", ASSISTANT, "/guide", second=5),
    Request("192.0.2.44", ASSISTANT, "/guide", second=6, method="HEAD"),
)
Renderer = Callable[[Request], str]


def render_common(r: Request) -> str:
    return f'{r.address} - - [{r.clf_time}] "{r.method} {r.path} HTTP/1.1" {r.status} 5123'


def render_combined(r: Request) -> str:
    return f'{render_common(r)} "{r.referrer}" "{r.agent}"'


def render_traefik_text(r: Request) -> str:
    return f'{render_combined(r)} 42 "docs@docker" "http://10.0.0.5:80" 3ms'


def render_vhost(r: Request) -> str:
    return f"{HOST}:443 {render_combined(r)}"


def render_forwarded_first(r: Request) -> str:
    """Apache with `%{X-Forwarded-For}i` in place of `%h`: two hops, then the usual fields."""
    return render_combined(r).replace(r.address, f"{r.address}, 10.0.0.7", 1)


IIS_FIELDS = (
    "date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status "
    "sc-substatus sc-win32-status time-taken"
)
NETSCALER_FIELDS = (
    "date time c-ip cs-username sc-servicename s-ip s-port cs-method cs-uri-stem cs-uri-query sc-status cs-bytes "
    "sc-bytes time-taken cs-version cs(User-Agent) cs(Cookie) cs(Referer)"
)
CLOUDFRONT_FIELDS = (
    "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) "
    "cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken "
    "x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status "
    "fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len "
    "sc-range-start sc-range-end"
)


def list_w3c_values(r: Request, columns: str, encode: Callable[[str], str]) -> list[str]:
    stem, _, query = r.path.partition("?")
    values = {
        "date": f"{r.time:%Y-%m-%d}",
        "time": f"{r.time:%H:%M:%S}",
        "c-ip": r.address,
        "cs-method": r.method,
        "cs-uri-stem": stem,
        "cs-uri-query": query or "-",
        "sc-status": str(r.status),
        "cs(User-Agent)": encode(r.agent),
        "cs(Referer)": encode(r.referrer),
        "cs(Host)": "d111111abcdef8.cloudfront.net",
        "x-host-header": HOST,
        "s-ip": "10.0.0.4",
        "s-port": "443",
        "sc-bytes": "5123",
        "time-taken": "15",
        "x-edge-location": "FRA60-P1",
        "x-edge-request-id": f"id{r.second}==",
        "x-edge-result-type": "Hit",
    }
    return [values.get(column, "-") for column in columns.split()]


def render_iis(r: Request) -> str:
    return " ".join(list_w3c_values(r, IIS_FIELDS, lambda text: text.replace(" ", "+")))


def render_netscaler(r: Request) -> str:
    return " ".join(list_w3c_values(r, NETSCALER_FIELDS, lambda text: text.replace(" ", "+")))


def render_cloudfront(r: Request) -> str:
    return "\t".join(list_w3c_values(r, CLOUDFRONT_FIELDS, lambda text: text.replace(" ", "%20")))


def render_alb(r: Request) -> str:
    return (
        f"h2 {r.time:%Y-%m-%dT%H:%M:%S}.186641Z app/docs/50dc6c495c0c9188 {r.address}:2817 10.0.0.1:80 0.000 0.001 "
        f'0.000 {r.status} {r.status} 34 366 "{r.method} https://{HOST}:443{r.path} HTTP/2.0" "{r.agent}" '
        "ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 "
        "arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/docs/73e2d6bc24d8a067 "
        f'"Root=1-58337262-36d228ad5d99923122bbe354" "{HOST}" "arn:aws:acm:us-east-2:123456789012:certificate/1" 0 '
        f'{r.time:%Y-%m-%dT%H:%M:%S}.364000Z "forward" "-" "-" "10.0.0.1:80" "{r.status}" "-" "-" TID_1234abcd'
    )


def render_classic_elb(r: Request) -> str:
    return (
        f"{r.time:%Y-%m-%dT%H:%M:%S}.945958Z docs-balancer {r.address}:2817 10.0.0.1:80 0.000086 0.001048 0.001337 "
        f'{r.status} {r.status} 0 57 "{r.method} https://{HOST}:443{r.path} HTTP/1.1" "{r.agent}" '
        "DHE-RSA-AES128-SHA TLSv1.2"
    )


def render_s3(r: Request) -> str:
    key = r.path.partition("?")[0].strip("/") or "index.html"
    return (
        f"79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be docs-bucket [{r.clf_time}] {r.address} - "
        f'3E57427F3EXAMPLE WEBSITE.{r.method}.OBJECT {key} "{r.method} {r.path} HTTP/1.1" {r.status} - 5123 5123 41 28 '
        f'"{r.referrer}" "{r.agent}" - s9lzHYrFp76ZVxRcpX9+5cjAnEH2ROuNkd2BHfIa6UkFVdtjf5mKR3/eTPFvsiP/XV/VLi31234= - '
        f"ECDHE-RSA-AES128-GCM-SHA256 - {HOST} TLSv1.2 - -"
    )


def render_envoy(r: Request) -> str:
    return (
        f'[{r.time:%Y-%m-%dT%H:%M:%S}.310Z] "{r.method} {r.path} HTTP/2" {r.status} - 154 5123 226 100 '
        f'"{r.address},10.0.35.28" "{r.agent}" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd{r.second}" "{HOST}" '
        '"tcp://10.0.2.1:80"'
    )


def render_istio(r: Request) -> str:
    return (
        f'[{r.time:%Y-%m-%dT%H:%M:%S}.094Z] "{r.method} {r.path} HTTP/1.1" {r.status} - via_upstream - "-" 0 5123 2 1 '
        f'"{r.address}" "{r.agent}" "d209e46f-9ed5-9b61-bbdd-43e22662702{r.second}" "{HOST}" "127.0.0.1:80" '
        "inbound|80||docs.default.svc.cluster.local 127.0.0.6:57317 172.30.146.73:80 10.0.35.28:0 "
        "outbound_.80_._.docs.default.svc.cluster.local default"
    )


def render_bunny(r: Request) -> str:
    return (
        f"HIT|{r.status}|{r.milliseconds}|5123|390|{r.address}|{r.referrer}|https://{HOST}{r.path}|DE|{r.agent}|"
        f"322b688bd63fb63f2babe9de30a5d26{r.second}|DE"
    )


def render_caddy(r: Request) -> str:
    headers = {"User-Agent": [r.agent], "Referer": [r.referrer]}
    request = {
        "remote_ip": r.address,
        "client_ip": r.address,
        "proto": "HTTP/2.0",
        "method": r.method,
        "host": HOST,
        "uri": r.path,
        "headers": headers,
    }
    record = {"level": "info", "ts": r.milliseconds / 1000, "logger": "http.log.access", "msg": "handled request"}
    return json.dumps({**record, "request": request, "size": 5123, "status": r.status})


def render_traefik(r: Request) -> str:
    record = {
        "ClientAddr": f"{r.address}:51234",
        "ClientHost": r.address,
        "DownstreamStatus": r.status,
        "RequestHost": HOST,
        "RequestMethod": r.method,
        "RequestPath": r.path,
        "StartUTC": f"{r.time:%Y-%m-%dT%H:%M:%S}.123456789Z",
        "entryPointName": "websecure",
        "level": "info",
        "msg": "",
        "request_Referer": r.referrer,
        "request_User-Agent": r.agent,
        "time": r.iso_time,
    }
    return json.dumps(record)


def render_cloudflare(r: Request) -> str:
    record = {
        "ClientIP": r.address,
        "ClientRequestHost": HOST,
        "ClientRequestMethod": r.method,
        "ClientRequestURI": r.path,
        "ClientRequestReferer": r.referrer,
        "ClientRequestUserAgent": r.agent,
        "EdgeResponseStatus": r.status,
        "EdgeStartTimestamp": r.iso_time,
        "RayID": f"3a6050bcbe121a8{r.second}",
    }
    return json.dumps(record)


def render_gcp(r: Request) -> str:
    http_request = {
        "requestMethod": r.method,
        "requestUrl": f"https://{HOST}{r.path}",
        "requestSize": "577",
        "status": r.status,
        "responseSize": "5123",
        "userAgent": r.agent,
        "remoteIp": r.address,
        "referer": r.referrer,
        "serverIp": "10.128.0.7",
        "latency": "0.017s",
    }
    record = {
        "httpRequest": http_request,
        "insertId": f"1kdbc3ag1dbc45{r.second}",
        "jsonPayload": {"@type": "type.googleapis.com/google.cloud.loadbalancing.type.LoadBalancerLogEntry"},
        "logName": "projects/docs/logs/requests",
        "resource": {"type": "http_load_balancer", "labels": {"zone": "global"}},
        "severity": "INFO",
        "timestamp": f"{r.time:%Y-%m-%dT%H:%M:%S}.391009Z",
    }
    return json.dumps(record)


def render_azure_front_door(r: Request) -> str:
    properties = {
        "trackingReference": f"0abc{r.second}",
        "httpMethod": r.method,
        "httpVersion": "2.0.0.0",
        "requestUri": f"https://{HOST}:443{r.path}",
        "userAgent": r.agent,
        "clientIp": r.address,
        "socketIp": r.address,
        "httpStatusCode": str(r.status),
        "referer": r.referrer,
        "hostName": HOST,
    }
    record = {"time": f"{r.time:%Y-%m-%dT%H:%M:%S}.1234567Z", "category": "FrontDoorAccessLog"}
    return json.dumps({**record, "operationName": "Microsoft.Cdn/Profiles/AccessLog/Write", "properties": properties})


def render_azure_gateway(r: Request) -> str:
    properties = {
        "instanceId": "appgw_2",
        "clientIP": r.address,
        "clientPort": 45057,
        "httpMethod": r.method,
        "originalRequestUriWithArgs": r.path,
        "requestUri": r.path.partition("?")[0],
        "userAgent": r.agent,
        "httpStatus": r.status,
        "host": HOST,
        "originalHost": HOST,
    }
    record = {"timeStamp": f"{r.time:%Y-%m-%dT%H:%M:%S}+00:00", "category": "ApplicationGatewayAccessLog"}
    return json.dumps({**record, "operationName": "ApplicationGatewayAccess", "properties": properties})


def render_fastly(r: Request) -> str:
    record = {
        "timestamp": f"{r.time:%Y-%m-%dT%H:%M:%S}+0000",
        "client_ip": r.address,
        "geo_country": "germany",
        "host": HOST,
        "url": r.path,
        "request_method": r.method,
        "request_protocol": "HTTP/2",
        "request_referer": r.referrer,
        "request_user_agent": r.agent,
        "response_state": "HIT",
        "response_status": r.status,
        "fastly_is_edge": True,
    }
    return json.dumps(record)


def render_vercel(r: Request) -> str:
    proxy = {
        "timestamp": r.milliseconds,
        "method": r.method,
        "host": HOST,
        "path": r.path,
        "userAgent": [r.agent],
        "referer": r.referrer,
        "region": "sfo1",
        "statusCode": r.status,
        "clientIp": r.address,
        "scheme": "https",
    }
    record = {
        "id": f"157381718733037706171730000{r.second}",
        "deploymentId": "dpl_233NRGRjVZX1caZrXWtz5g1TAksD",
        "source": "static",
        "host": HOST,
        "timestamp": r.milliseconds,
        "projectId": "gdufoJxB6b9b1fEqr1jUtFkyavUU",
        "level": "info",
        "path": r.path,
        "requestId": f"643af4e3-975a-4cc7-9e7a-1eda11539d9{r.second}-{r.address}",
        "statusCode": r.status,
        "proxy": proxy,
    }
    return json.dumps(record)


def render_netlify(r: Request) -> str:
    record = {
        "timestamp": r.iso_time,
        "account_id": "5f1e",
        "deploy_id": "6478",
        "request_id": f"01GXAMPLE{r.second}",
        "method": r.method,
        "url": f"https://{HOST}{r.path}",
        "user_agent": r.agent,
        "client_ip": r.address,
        "status_code": r.status,
        "referrer": r.referrer,
        "log_type": "traffic",
    }
    return json.dumps(record)


def render_istio_json(r: Request) -> str:
    record = {
        "start_time": f"{r.time:%Y-%m-%dT%H:%M:%S}.094Z",
        "method": r.method,
        "path": r.path,
        "protocol": "HTTP/1.1",
        "response_code": r.status,
        "authority": HOST,
        "user_agent": r.agent,
        "x_forwarded_for": f"{r.address},10.0.35.28",
        "downstream_remote_address": "10.0.35.28:0",
        "request_id": f"d209e46f{r.second}",
    }
    return json.dumps(record)


def render_event(r: Request) -> str:
    record: dict[str, Any] = {"url": f"https://{HOST}{r.path}", "timestamp": r.iso_time, "method": r.method}
    return json.dumps({**record, "userAgent": r.agent, "ip": r.address, "status": r.status, "referrer": r.referrer})


def render_nginx_json(r: Request) -> str:
    record = {"time_iso8601": r.iso_time, "remote_addr": r.address, "host": HOST, "status": str(r.status)}
    request = f"{r.method} {r.path} HTTP/2.0"
    return json.dumps({**record, "request": request, "http_referer": r.referrer, "http_user_agent": r.agent})


def render_pino(r: Request) -> str:
    """A record of pino-http, for Node.js: nested, with header names in lower case."""
    headers = {"host": HOST, "user-agent": r.agent, "referer": r.referrer}
    request = {"id": 1, "method": r.method, "url": r.path, "headers": headers, "remoteAddress": r.address}
    return json.dumps({"level": 30, "time": r.milliseconds, "req": request, "res": {"statusCode": r.status}})


def render_ecs(r: Request) -> str:
    """A record in the Elastic Common Schema."""
    http = {"request": {"method": r.method, "referrer": r.referrer}, "response": {"status_code": r.status}}
    record = {"@timestamp": r.iso_time, "url": {"path": r.path.partition("?")[0], "domain": HOST}, "http": http}
    return json.dumps({**record, "client": {"ip": r.address}, "user_agent": {"original": r.agent}})


RENDERERS: dict[str, Renderer] = {
    "combined": render_combined,
    "combined, Traefik": render_traefik_text,
    "combined, two hops": render_forwarded_first,
    "vhost": render_vhost,
    "w3c, IIS": render_iis,
    "w3c, NetScaler": render_netscaler,
    "cloudfront": render_cloudfront,
    "alb": render_alb,
    "alb, classic": render_classic_elb,
    "s3": render_s3,
    "envoy": render_envoy,
    "envoy, Istio": render_istio,
    "bunny": render_bunny,
    "caddy": render_caddy,
    "traefik": render_traefik,
    "cloudflare": render_cloudflare,
    "gcp": render_gcp,
    "azure, Front Door": render_azure_front_door,
    "azure, Application Gateway": render_azure_gateway,
    "fastly": render_fastly,
    "vercel": render_vercel,
    "netlify": render_netlify,
    "envoy-json": render_istio_json,
    "jsonl, events": render_event,
    "jsonl, nginx": render_nginx_json,
    "jsonl, pino": render_pino,
    "jsonl, ECS": render_ecs,
}
HEADERS = {
    "w3c, IIS": f"#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n#Fields: {IIS_FIELDS}\n",
    "w3c, NetScaler": f"#Version: 1.0\n#Software: Netscaler Web Logging(NSWL)\n#Fields: {NETSCALER_FIELDS}\n",
    "cloudfront": f"#Version: 1.0\n#Fields: {CLOUDFRONT_FIELDS}\n",
}


def wrap_in_docker(line: str) -> str:
    return json.dumps({"log": f"{line}\n", "stream": "stdout", "time": "2026-11-14T12:00:00.123456789Z"})


def wrap_in_journal(line: str) -> str:
    return json.dumps({"__REALTIME_TIMESTAMP": "1794657600000000", "_HOSTNAME": "web1", "MESSAGE": line})


WRAPPERS: dict[str, Callable[[str], str]] = {
    "syslog": lambda line: f"Nov 14 12:00:00 web1 nginx: {line}",
    "syslog, RFC 3164": lambda line: f"<190>Nov  4 12:00:00 web1 nginx[812]: {line}",
    "syslog, RFC 5424": lambda line: f"<190>1 2026-11-14T12:00:00.000Z web1 nginx 812 - - {line}",
    "syslog, Fastly": lambda line: f"<134>2026-11-14T12:00:00Z cache-fra1234 docs[277959]: {line}",
    "journald": wrap_in_journal,
    "docker": wrap_in_docker,
    "cri": lambda line: f"2026-11-14T12:00:00.669794202Z stdout F {line}",
    "compose": lambda line: f"web-1  | {line}",
}


def render_log(name: str, requests: tuple[Request, ...] = REQUESTS) -> str:
    # Bunny logs neither the method nor, for that reason, HEAD requests that could be told apart.
    rendered = [RENDERERS[name](request) for request in requests if name != "bunny" or request.method == "GET"]
    return HEADERS.get(name, "") + "\n".join(rendered) + "\n"


SAMPLES = {name: render_log(name) for name in RENDERERS}
