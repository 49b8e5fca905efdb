"""One request in each log format: a page, read by a browser at 12:00:00 UTC on 2026-11-14."""

import json

AT = 1_794_657_600_000
CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Safari/537.36"
)
ADDRESS = "203.0.113.9"
REFERRER = "https://search.example.com/?q=setup"
REQUEST = f'{ADDRESS} - - [14/Nov/2026:12:00:00 +0000] "GET /guide/?x=1 HTTP/2.0" 200 5123'
COMBINED = f'{REQUEST} "{REFERRER}" "{CHROME}"'
FIELDS = (
    "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) "
    "cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken"
)
CLOUDFRONT = "\t".join(
    [
        *("2026-11-14", "12:00:00", "FRA60-P1", "5123", ADDRESS, "GET", "d111111abcdef8.cloudfront.net", "/guide/"),
        *(
            "200",
            REFERRER,
            CHROME.replace(" ", "%20"),
            "x=1",
            "-",
            "Hit",
            "id==",
            "docs.example.com",
            "https",
            "23",
            "0.1",
        ),
    ]
)
CADDY = {
    "level": "info",
    "ts": AT / 1000,
    "logger": "http.log.access.log0",
    "msg": "handled request",
    "request": {
        "remote_ip": "10.0.0.1",
        "client_ip": ADDRESS,
        "proto": "HTTP/2.0",
        "method": "GET",
        "host": "docs.example.com",
        "uri": "/guide/?x=1",
        "headers": {"User-Agent": [CHROME], "Referer": [REFERRER], "Accept": ["text/html,*/*"]},
    },
    "duration": 0.001,
    "size": 5123,
    "status": 200,
    "resp_headers": {"Content-Type": ["text/html; charset=utf-8"]},
}
CLOUDFLARE = {
    "ClientIP": ADDRESS,
    "ClientRequestHost": "docs.example.com",
    "ClientRequestMethod": "GET",
    "ClientRequestURI": "/guide/?x=1",
    "ClientRequestReferer": REFERRER,
    "ClientRequestUserAgent": CHROME,
    "EdgeResponseStatus": 200,
    "EdgeResponseContentType": "text/html",
    "EdgeStartTimestamp": "2026-11-14T12:00:00Z",
    "RayID": "3a6050bcbe121a87",
}
EVENT = {
    "url": "https://docs.example.com/guide/?x=1",
    "timestamp": "2026-11-14T12:00:00Z",
    "userAgent": CHROME,
    "ip": ADDRESS,
    "referrer": REFERRER,
}
NGINX = {
    "time_iso8601": "2026-11-14T12:00:00+00:00",
    "remote_addr": ADDRESS,
    "host": "docs.example.com",
    "request": "GET /guide/?x=1 HTTP/2.0",
    "status": "200",
    "http_referer": REFERRER,
    "http_user_agent": CHROME,
}
LOGS = {
    "combined": COMBINED,
    "combined, more fields": f'{COMBINED} "198.51.100.7" rt=0.004 "-"',
    "common": REQUEST,
    "vhost": f"docs.example.com:443 {COMBINED}",
    "cloudfront": f"#Version: 1.0\n#Fields: {FIELDS}\n{CLOUDFRONT}",
    "cloudfront, JSON": json.dumps(dict(zip(FIELDS.split(), CLOUDFRONT.split("\t"), strict=True))),
    "caddy": json.dumps(CADDY, separators=(",", ":")),
    "cloudflare": json.dumps(CLOUDFLARE),
    "cloudflare, nanoseconds": json.dumps({**CLOUDFLARE, "EdgeStartTimestamp": AT * 1_000_000}),
    "jsonl": json.dumps(EVENT),
    "jsonl, nginx": json.dumps(NGINX),
}
